//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/request"
	"github.com/hostler/hostler/hooks/runner"
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
	x := redactedExecutor{printing{"it is " + secret}, redactor}
	for _, res := range []runner.Result{x.Execute(t.Context(), runner.Attempt{}), x.WaitResult(t.Context(), runner.Attempt{})} {
		require.Equal(t, "it is •••", res.Stdout.Head)
		require.Equal(t, "it is •••", res.Stderr.Tail)
		require.ErrorIs(t, res.Err, runtime.ErrTainted)
		require.NotContains(t, res.Err.Error(), secret)
	}
}
