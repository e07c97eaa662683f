package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/hostler/hostler/hooks/request"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/runtime"
)

// redactAttr replaces the secrets of hooks in a log record: in its message, and
// in its values. A value that is not text becomes text only if it has a secret.
func (c serveConfig) redactAttr(_ []string, a slog.Attr) slog.Attr {
	text := a.Value.String()
	if redacted := c.redactor.Redact(text); redacted != text {
		a.Value = slog.StringValue(redacted)
	}
	return a
}

// standardLog writes what packages write to the standard library's log to the
// server's. It omits what net/http quotes of a receiver that sent more than it
// was asked for: that may be a part of a secret.
type standardLog struct{ log *slog.Logger }

func (w standardLog) Write(p []byte) (int, error) {
	text, _, _ := strings.Cut(strings.TrimSpace(string(p)), " starting with ")
	w.log.Warn(text)
	return len(p), nil
}

// redactedExecutor replaces the secrets of hooks in what commands print: a
// response may have brought one into the container.
type redactedExecutor struct {
	runner.Executor
	redactor *request.Redactor
}

func (x redactedExecutor) Execute(ctx context.Context, a runner.Attempt) runner.Result {
	return x.redact(x.Executor.Execute(ctx, a))
}

func (x redactedExecutor) WaitResult(ctx context.Context, a runner.Attempt) runner.Result {
	return x.redact(x.Executor.WaitResult(ctx, a))
}

func (x redactedExecutor) redact(r runner.Result) runner.Result {
	for _, o := range []*runtime.Output{&r.Stdout, &r.Stderr} {
		if o.Truncated {
			o.Head, o.Tail = x.redactor.RedactEnds(o.Head, o.Tail)
			continue
		}
		whole := x.redactor.Redact(o.Head + o.Tail)
		if o.Head, o.Tail = x.redactor.Redact(o.Head), x.redactor.Redact(o.Tail); whole != o.Head+o.Tail {
			o.Head, o.Tail = whole, "" // a secret was in both
		}
	}
	if r.Err != nil {
		if text := x.redactor.Redact(r.Err.Error()); text != r.Err.Error() {
			r.Err = redactedError{errors.New(text), r.Err}
		}
	}
	return r
}

// redactedError has the text of the first error and matches the second.
type redactedError struct{ shown, cause error }

func (e redactedError) Error() string { return e.shown.Error() }
func (e redactedError) Unwrap() error { return e.cause }
