package runtimetest

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// outcomes are commands that are asked about by their keys.
func outcomes(t *testing.T, s *suite) {
	t.Run("over", func(t *testing.T) {
		t.Parallel()
		c := s.start(t)
		cmd := c.command("append", "once", "x")
		cmd.Key = newMarker()
		first, err := c.run(t, cmd)
		require.NoError(t, err)
		again, err := c.outcome(t, cmd)
		require.NoError(t, err)
		require.Equal(t, first, again)
		require.Equal(t, "x", c.ok(t, "read", "once"), "asking runs nothing")
	})
	t.Run("under way", func(t *testing.T) {
		t.Parallel()
		c := s.start(t)
		cmd := c.command("hang", newMarker())
		cmd.Key = newMarker()
		done := make(chan error, 1)
		go func() { // ends with the command
			_, err := c.run(t, cmd)
			done <- err
		}()
		eventually(t, "the command runs", func() bool { return c.ok(t, "ps", cmd.Args[2]) != "" })
		asked := make(chan error, 1)
		go func() { // the same
			_, err := c.outcome(t, cmd)
			asked <- err
		}()
		require.NoError(t, c.rt.Restart(t.Context(), c.id, 1))
		require.ErrorIs(t, <-done, runtime.ErrLost)
		require.Error(t, <-asked, "lost, or forgotten when the question came late")
	})
	t.Run("never begun", func(t *testing.T) {
		t.Parallel()
		c := s.start(t)
		cmd := c.command("append", "once", "x")
		cmd.Key = newMarker()
		_, err := c.outcome(t, cmd)
		require.ErrorIs(t, err, runtime.ErrNoRun)
		c.ok(t, "append", "once", "y")
		require.Equal(t, "y", c.ok(t, "read", "once"), "asking runs nothing")
	})
	t.Run("did not start", func(t *testing.T) {
		t.Parallel()
		c := s.start(t)
		cmd := runtime.Command{Key: newMarker(), Args: []string{"/there/is/none"}}
		for _, ask := range []func(*testing.T, runtime.Command) (runtime.Result, error){c.run, c.outcome} {
			_, err := ask(t, cmd)
			require.Equal(t, runtime.StartNoBinary, startError(t, err))
		}
	})
	t.Run("unanswered", func(t *testing.T) {
		t.Parallel()
		unanswered(t, s)
	})
	t.Run("no container", func(t *testing.T) {
		t.Parallel()
		_, err := s.rt.Outcome(t.Context(), NewID(), runtime.Command{Key: "k"})
		require.ErrorIs(t, err, runtime.ErrNotFound)
	})
}

// An Exec without an answer leaves nothing in doubt for whoever reaches the
// container again: what never began is begun then, once, and what was lost sight
// of has run on and tells how it ended.
func unanswered(t *testing.T, s *suite) {
	if unable(t, s.Reopen == nil, "to outlive its server") {
		return
	}
	if _, closes := s.rt.(io.Closer); unable(t, !closes, "to lose its engine") {
		return
	}
	c := s.start(t)
	second, under := c.lostSight(t)
	result, err := c.outcome(t, under)
	require.NoError(t, err)
	require.True(t, result.TimedOut, "it ran on: %+v", result)
	c.gone(t, under.Args[2])

	cmd := c.command("append", "once", "x")
	cmd.Key = newMarker()
	_, err = second.Exec(t.Context(), c.id, cmd)
	require.ErrorIs(t, err, runtime.ErrUnavailable)
	_, err = c.outcome(t, cmd)
	require.ErrorIs(t, err, runtime.ErrNoRun, "it never began")
	for range 2 {
		_, err = c.run(t, cmd)
		require.NoError(t, err)
	}
	require.Equal(t, "x", c.ok(t, "read", "once"))
}

// lostSight has a backend lose its engine under a command that hangs until its
// timeout. On a busy machine that may come first: then it has more time.
func (c *container) lostSight(t *testing.T) (closed runtime.Runtime, cmd runtime.Command) {
	t.Helper()
	for timeout := 5 * time.Second; ; timeout *= 2 {
		closed, cmd = c.Reopen(t), c.command("hang", newMarker())
		cmd.Key, cmd.Timeout = newMarker(), timeout
		done := make(chan error, 1)
		go func() { // ends with the command
			result, err := closed.Exec(t.Context(), c.id, cmd)
			if err == nil && !result.TimedOut {
				err = fmt.Errorf("it ended by itself: %+v", result)
			}
			done <- err
		}()
		over := false
		eventually(t, "the command runs", func() bool {
			over = len(done) > 0
			return over || c.ok(t, "ps", cmd.Args[2]) != ""
		})
		require.NoError(t, closed.(io.Closer).Close())
		err := <-done
		if err == nil && timeout < patience {
			continue
		}
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		return closed, cmd
	}
}

// outcome asks what became of a command.
func (c *container) outcome(t *testing.T, cmd runtime.Command) (runtime.Result, error) {
	t.Helper()
	return c.rt.Outcome(t.Context(), c.id, cmd)
}
