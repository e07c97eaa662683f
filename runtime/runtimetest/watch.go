package runtimetest

import (
	"context"
	"testing"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// watchCase tests Watch: no exit after ready is missed.
func watchCase(t *testing.T, s *suite) {
	earlier := s.start(t)
	exits, stop := s.watch(t)
	later := s.start(t)

	earlier.endMain(t)
	exited := awaitExit(t, exits, earlier.id)
	require.Equal(t, 0, exited.ExitCode)
	require.False(t, exited.Time.IsZero())

	require.NoError(t, s.rt.Destroy(t.Context(), later.id))
	awaitExit(t, exits, later.id)

	require.NoError(t, s.rt.Start(t.Context(), earlier.id, 1))
	require.NoError(t, s.rt.Destroy(t.Context(), earlier.id))
	awaitExit(t, exits, earlier.id)
	require.NoError(t, stop(), "Watch ends with its context")
}

// watch starts to watch, and returns when no exit can be missed.
func (s *suite) watch(t *testing.T) (exits <-chan runtime.Exit, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ch, ready, done := make(chan runtime.Exit, 1000), make(chan struct{}), make(chan error, 1)
	go func() { // ends with ctx
		done <- s.rt.Watch(ctx, func() { close(ready) }, func(d runtime.Exit) {
			if d.Condition == "" {
				ch <- d
			}
		})
	}()
	select {
	case <-ready:
	case err := <-done:
		require.NoError(t, err, "Watch ended before it was ready")
	}
	return ch, func() error {
		cancel()
		return <-done
	}
}

// awaitExit waits for the exit of one container and ignores others.
func awaitExit(t *testing.T, exits <-chan runtime.Exit, id string) runtime.Exit {
	t.Helper()
	for {
		if exited := testenv.Await(t, exits, "the exit of "+id+" is reported"); exited.ID == id {
			return exited
		}
	}
}

// reopenCase is a restarted server that finds the existing containers.
func reopenCase(t *testing.T, s *suite) {
	if isUnsupported(t, s.Reopen == nil, "to outlive its server") {
		return
	}
	c := s.start(t)
	c.mustExec(t, "write", "kept", "x")
	cmd := c.command("append", "once", "x")
	cmd.RunID = newMarker()
	_, err := c.exec(t, cmd)
	require.NoError(t, err)

	second := &suite{Harness: s.Harness, rt: s.Reopen(t)}
	reopened := &container{suite: second, id: c.id, testprog: c.testprog}
	require.True(t, second.isListed(t, c.id))
	require.NoError(t, second.rt.Reach(t.Context(), c.id))
	require.NoError(t, second.rt.Start(t.Context(), c.id, 1), "it runs already")
	require.Equal(t, "x", reopened.mustExec(t, "read", "kept"))

	result, err := reopened.exec(t, cmd)
	require.NoError(t, err, "the outcome of a command of the first server")
	require.True(t, result.OK())
	require.Equal(t, "x", reopened.mustExec(t, "read", "once"), "it did not run again")
	result, err = reopened.waitResult(t, cmd)
	require.NoError(t, err, "the outcome of a command of the first server")
	require.True(t, result.OK())

	exits, stop := second.watch(t)
	require.Equal(t, "both\n", c.mustExec(t, "echo", "both"), "the first one continues")
	c.endMain(t)
	awaitExit(t, exits, c.id)
	require.NoError(t, stop())
	require.NoError(t, second.rt.Destroy(t.Context(), c.id))
	require.False(t, s.isListed(t, c.id))
	require.ErrorIs(t, second.rt.Reach(t.Context(), c.id), runtime.ErrNotFound)
}
