package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// waitResultCases are commands whose outcome is requested by their RunID.
func waitResultCases(t *testing.T, s *suite) {
	t.Run("over", func(t *testing.T) {
		t.Parallel()
		c := s.start(t)
		cmd := c.command("append", "once", "x")
		cmd.RunID = newMarker()
		first, err := c.exec(t, cmd)
		require.NoError(t, err)
		second, err := c.waitResult(t, cmd)
		require.NoError(t, err)
		require.Equal(t, first, second)
		require.Equal(t, "x", c.mustExec(t, "read", "once"), "the request runs nothing")
	})
	t.Run("running", func(t *testing.T) {
		t.Parallel()
		c := s.start(t)
		cmd := c.command("hang", newMarker())
		cmd.RunID = newMarker()
		done := make(chan error, 1)
		go func() { // ends with the command
			_, err := c.exec(t, cmd)
			done <- err
		}()
		testenv.AwaitTrue(t, "the command runs", func() bool { return c.mustExec(t, "ps", cmd.Args[2]) != "" })
		waited := make(chan error, 1)
		go func() { // the same
			_, err := c.waitResult(t, cmd)
			waited <- err
		}()
		require.NoError(t, c.rt.Restart(t.Context(), c.id, 1))
		require.ErrorIs(t, <-done, runtime.ErrContainerExited)
		require.Error(t, <-waited, "lost, or forgotten if the request came late")
	})
	t.Run("canceled", func(t *testing.T) {
		t.Parallel()
		c := s.start(t)
		cmd := c.command("hang", newMarker())
		cmd.RunID, cmd.Timeout = newMarker(), 10*time.Minute
		done := make(chan error, 1)
		go func() { // ends with the command
			_, err := c.exec(t, cmd)
			done <- err
		}()
		testenv.AwaitTrue(t, "the command runs", func() bool { return c.mustExec(t, "ps", cmd.Args[2]) != "" })
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errCanceledBefore)
		_, err := c.rt.WaitResult(ctx, c.id, cmd)
		require.ErrorIs(t, err, errCanceledBefore)
		require.NoError(t, <-done)
		c.requireNoProcess(t, cmd.Args[2])
	})
	t.Run("never begun", func(t *testing.T) {
		t.Parallel()
		c := s.start(t)
		cmd := c.command("append", "once", "x")
		cmd.RunID = newMarker()
		_, err := c.waitResult(t, cmd)
		require.ErrorIs(t, err, runtime.ErrUnknownRun)
		c.mustExec(t, "append", "once", "y")
		require.Equal(t, "y", c.mustExec(t, "read", "once"), "the request runs nothing")
	})
	t.Run("did not start", func(t *testing.T) {
		t.Parallel()
		c := s.start(t)
		cmd := runtime.Command{RunID: newMarker(), Args: []string{"/there/is/none"}}
		for _, call := range []func(*testing.T, runtime.Command) (runtime.Result, error){c.exec, c.waitResult} {
			_, err := call(t, cmd)
			require.Equal(t, runtime.StartBinaryNotFound, startError(t, err))
		}
	})
	t.Run("unanswered", func(t *testing.T) {
		t.Parallel()
		engineLost(t, s)
	})
	t.Run("no container", func(t *testing.T) {
		t.Parallel()
		_, err := s.rt.WaitResult(t.Context(), NewID(), runtime.Command{RunID: "k"})
		require.ErrorIs(t, err, runtime.ErrNotFound)
	})
}

var errCanceledBefore = errors.New("canceled before the call")

// An Exec without a response leaves nothing unknown for a server that reaches the
// container again: a command that never began is run then, once, and one that did
// begin has continued and its outcome is available.
func engineLost(t *testing.T, s *suite) {
	if isUnsupported(t, s.Reopen == nil, "to outlive its server") {
		return
	}
	if _, closes := s.rt.(io.Closer); isUnsupported(t, !closes, "to lose its engine") {
		return
	}
	c := s.start(t)
	second, cmdLost := c.loseEngine(t)
	result, err := c.waitResult(t, cmdLost)
	require.NoError(t, err)
	require.True(t, result.TimedOut, "it continued: %+v", result)
	c.requireNoProcess(t, cmdLost.Args[2])

	cmd := c.command("append", "once", "x")
	cmd.RunID = newMarker()
	_, err = second.Exec(t.Context(), c.id, cmd)
	require.ErrorIs(t, err, runtime.ErrUnavailable)
	_, err = c.waitResult(t, cmd)
	require.ErrorIs(t, err, runtime.ErrUnknownRun, "it never began")
	for range 2 {
		_, err = c.exec(t, cmd)
		require.NoError(t, err)
	}
	require.Equal(t, "x", c.mustExec(t, "read", "once"))
}

// loseEngine has a backend lose its engine during a command that hangs until its
// timeout. On a busy machine the timeout may come first: then it is extended.
func (c *container) loseEngine(t *testing.T) (closed runtime.Runtime, cmd runtime.Command) {
	t.Helper()
	for timeout := 5 * time.Second; ; timeout *= 2 {
		closed, cmd = c.Reopen(t), c.command("hang", newMarker())
		cmd.RunID, cmd.Timeout = newMarker(), timeout
		done := make(chan error, 1)
		go func() { // ends with the command
			result, err := closed.Exec(t.Context(), c.id, cmd)
			if err == nil && !result.TimedOut {
				err = fmt.Errorf("it exited by itself: %+v", result)
			}
			done <- err
		}()
		exited := false
		testenv.AwaitTrue(t, "the command runs", func() bool {
			exited = len(done) > 0
			return exited || c.mustExec(t, "ps", cmd.Args[2]) != ""
		})
		require.NoError(t, closed.(io.Closer).Close())
		err := <-done
		if err == nil {
			continue
		}
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		return closed, cmd
	}
}

// waitResult requests the outcome of a command.
func (c *container) waitResult(t *testing.T, cmd runtime.Command) (runtime.Result, error) {
	t.Helper()
	return c.rt.WaitResult(t.Context(), c.id, cmd)
}
