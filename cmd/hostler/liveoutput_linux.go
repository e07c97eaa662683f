package main

import (
	"context"
	"log/slog"
	"strings"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/request"
	"github.com/hostler/hostler/runtime"
)

// liveOutput reads what hooks that run in containers have printed so far.
type liveOutput struct {
	rt     runtime.Outputs
	claim  func(ctx context.Context, id string) (claim.Claim, error)
	redact *request.Redactor // of the secrets of hooks
	log    *slog.Logger
}

// add returns the record of a running attempt with what it has printed so far: whole
// lines, as the rest of a line may be that of a secret. It adds nothing if the
// container does not answer, and nothing to an attempt with secret parameters, whose
// values are replaced when it has ended.
func (l liveOutput) add(ctx context.Context, r hooks.Run) hooks.Run {
	if r.State != hooks.Running || r.Container == "" || !r.Kind.Rule().InContainer {
		return r
	}
	if r.Claim != "" {
		c, err := l.claim(ctx, r.Claim)
		if err != nil || len(c.Sealed) > 0 {
			return r
		}
	}
	stdout, stderr, err := l.rt.Output(ctx, r.Container, hooks.AttemptID(r.ID, r.Attempt))
	if err != nil {
		l.log.Debug("the output of a running hook could not be read", "run", r.ID, "container", r.Container, "error", err)
		return r
	}
	r.Stdout, r.Stderr = l.lines(stdout), l.lines(stderr)
	return r
}

// lines returns the whole lines of an output, without the last ones that may be a part
// of a secret. The end of one that is not whole begins after what may be the rest of a
// secret.
func (l liveOutput) lines(o runtime.Output) runtime.Output {
	if !o.Truncated {
		o.Head, o.Tail = l.redacted(o.Head+o.Tail), ""
		return o
	}
	tail := o.Tail[min(l.redact.Span(), len(o.Tail)):]
	o.Head, o.Tail = l.redacted(o.Head), l.redacted(afterLineEnd(tail))
	return o
}

func (l liveOutput) redacted(text string) string {
	return beforeLineEnd(l.redact.RedactLive(beforeLineEnd(text)))
}

// lineEnds are the characters that end a line. Programs that show progress write the
// second one.
const lineEnds = "\n\r"

func beforeLineEnd(text string) string { return text[:strings.LastIndexAny(text, lineEnds)+1] }

func afterLineEnd(text string) string {
	i := strings.IndexAny(text, lineEnds)
	if i < 0 {
		return ""
	}
	return text[i+1:]
}
