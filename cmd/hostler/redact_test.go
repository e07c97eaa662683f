//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	stdlog "log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/request"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/hooks/variables"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
)

// printing is an executor that prints a text.
type printing struct{ text string }

func (x printing) Execute(context.Context, runner.Attempt) runner.Result {
	return runner.Result{
		State: hooks.Unknown, Stdout: runtime.Output{Head: x.text}, Stderr: runtime.Output{Tail: x.text},
		Err: fmt.Errorf("%w: %s", runtime.ErrTainted, x.text),
	}
}
func (x printing) WaitResult(ctx context.Context, a runner.Attempt) runner.Result {
	return x.Execute(ctx, a)
}
func (printing) Ending(hooks.Run) runner.Ending { return runner.Ending{} }

// stringer is a value of a log record that is no text.
type stringer string

func (s stringer) String() string { return string(s) }

// output is an executor that prints an output.
type output struct {
	printing
	stdout runtime.Output
}

func (x output) Execute(context.Context, runner.Attempt) runner.Result {
	return runner.Result{State: hooks.Succeeded, Stdout: x.stdout}
}

// A secret that is in both parts of an output is not on record, nor is what an output
// that was cut has of one.
func TestSecretsInParts(t *testing.T) {
	const secret = "correct-horse/battery"
	redactor := new(request.Redactor)
	redactor.Add(secret)
	redact := func(o runtime.Output) runtime.Output {
		return redactedExecutor{output{stdout: o}, redactor}.Execute(t.Context(), runner.Attempt{}).Stdout
	}
	for _, form := range []string{secret, url.QueryEscape(secret), base64.StdEncoding.EncodeToString([]byte("k:" + secret))} {
		for i := range len(form) {
			got := redact(runtime.Output{Head: "<<" + form[:i], Tail: form[i:] + ">>"})
			require.Regexp(t, "^<<.{0,3}•••.{0,3}>>$", got.Head+got.Tail)
		}
	}
	plain := strings.Repeat("plain text ", 100)
	for i := range len(secret) - 1 {
		got := redact(runtime.Output{Head: plain + secret[:i+1], Tail: secret[i+1:] + plain, Truncated: true})
		require.True(t, got.Truncated)
		require.NotEmpty(t, got.Head)
		require.True(t, strings.HasPrefix(plain, got.Head), got.Head)
		require.NotEmpty(t, got.Tail)
		require.True(t, strings.HasSuffix(plain, got.Tail), got.Tail)
	}
	whole := runtime.Output{Head: "nothing of", Tail: " it"}
	require.Equal(t, whole, redact(whole))
}

// lockedBuffer is a log that a test reads while it is written.
type lockedBuffer struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// A receiver that sends more than it was asked for, which net/http writes to the
// standard library's log, does not get a part of a secret into the server's.
func TestUnsolicitedResponse(t *testing.T) {
	const secret = "correct-horse-battery"
	t.Setenv("HOSTLER_SECRET_A", secret)
	var out lockedBuffer
	flags, writer := stdlog.Flags(), stdlog.Writer()
	stdlog.SetFlags(0)
	stdlog.SetOutput(standardLog{newLogger(&out, serveConfig{logFormat: "json"})})
	t.Cleanup(func() { stdlog.SetFlags(flags); stdlog.SetOutput(writer) })
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"+r.Header.Get("Authorization")[:20])
		}
	}))
	t.Cleanup(receiver.Close)
	requests, err := request.New(request.Options{Allow: []string{"127.0.0.1"}})
	require.NoError(t, err)
	url, err := variables.ParseTemplate(receiver.URL)
	require.NoError(t, err)
	res := requests.Execute(t.Context(), runner.Attempt{
		Timeout: time.Minute, Secrets: map[string]hooks.Secret{"A": {Env: "HOSTLER_SECRET_A"}},
		Action: hooks.Request{Method: "POST", URL: url, Auth: hooks.Auth{Type: hooks.AuthBearer, Secret: "A"}},
	})
	require.NoError(t, res.Err)
	testenv.AwaitTrue(t, "the log line of net/http", func() bool { return strings.Contains(out.String(), "Unsolicited response") })
	require.NotContains(t, out.String(), secret[:4])
}

// The secrets of hooks are neither in the log nor in what commands print.
func TestSecretsAreRedacted(t *testing.T) {
	const secret = "correct-horse-battery"
	redactor := new(request.Redactor)
	redactor.Add(secret)
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		log := newLogger(&out, serveConfig{logFormat: format, redactor: redactor})
		log.Info("sent "+secret, "token", secret, "error", errors.New("refused "+secret))
		require.Contains(t, out.String(), "refused •••")
		require.NotContains(t, out.String(), secret)
	}
	// A value of any type.
	var out bytes.Buffer
	log := newLogger(&out, serveConfig{logFormat: "json", redactor: redactor})
	log.Info("sent", "list", []string{secret, "x"}, "map", map[string]string{"k": secret}, slog.Group("g", "k", fmt.Stringer(stringer(secret))), "n", 3)
	require.NotContains(t, out.String(), secret)
	require.Contains(t, out.String(), `"list":"[••• x]"`)
	require.Contains(t, out.String(), `"n":3`)
	x := redactedExecutor{printing{"it is " + secret}, redactor}
	for _, res := range []runner.Result{x.Execute(t.Context(), runner.Attempt{}), x.WaitResult(t.Context(), runner.Attempt{})} {
		require.Equal(t, "it is •••", res.Stdout.Head)
		require.Equal(t, "it is •••", res.Stderr.Tail)
		require.ErrorIs(t, res.Err, runtime.ErrTainted)
		require.NotContains(t, res.Err.Error(), secret)
	}
}
