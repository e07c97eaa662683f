package runtimetest

import (
	"context"
	"testing"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// watch is Watch: no death after ready is missed.
func watch(t *testing.T, s *suite) {
	earlier := s.start(t)
	deaths, stop := s.watch(t)
	later := s.start(t)

	earlier.end(t)
	death := await(t, deaths, earlier.id)
	require.Equal(t, 0, death.ExitCode)
	require.False(t, death.Time.IsZero())

	require.NoError(t, s.rt.Destroy(t.Context(), later.id))
	await(t, deaths, later.id)

	require.NoError(t, s.rt.Start(t.Context(), earlier.id))
	require.NoError(t, s.rt.Destroy(t.Context(), earlier.id))
	await(t, deaths, earlier.id)
	require.NoError(t, stop(), "Watch ends with its context")
}

// watch starts to watch, and returns when no death can be missed.
func (s *suite) watch(t *testing.T) (deaths <-chan runtime.Death, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	died, ready, done := make(chan runtime.Death, 1000), make(chan struct{}), make(chan error, 1)
	go func() { // ends with ctx
		done <- s.rt.Watch(ctx, func() { close(ready) }, func(d runtime.Death) { died <- d })
	}()
	select {
	case <-ready:
	case err := <-done:
		require.NoError(t, err, "Watch ended before it was ready")
	case <-time.After(patience):
		require.Fail(t, "Watch is not ready")
	}
	return died, func() error {
		cancel()
		return <-done
	}
}

// await waits for the death of one container. Those of others are theirs.
func await(t *testing.T, deaths <-chan runtime.Death, id string) runtime.Death {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case death := <-deaths:
			if death.ID == id {
				return death
			}
		case <-limit:
			require.Fail(t, "a death was not told: "+id)
		}
	}
}

// reopen is a server that starts again and finds what there is.
func reopen(t *testing.T, s *suite) {
	if unable(t, s.Reopen == nil, "to outlive its server") {
		return
	}
	c := s.start(t)
	c.ok(t, "write", "kept", "x")
	cmd := c.command("append", "once", "x")
	cmd.Key = newMarker()
	_, err := c.run(t, cmd)
	require.NoError(t, err)

	second := &suite{Harness: s.Harness, rt: s.Reopen(t)}
	again := &container{suite: second, id: c.id, box: c.box}
	require.True(t, second.listed(t, c.id))
	require.NoError(t, second.rt.Start(t.Context(), c.id), "it runs already")
	require.Equal(t, "x", again.ok(t, "read", "kept"))

	result, err := again.run(t, cmd)
	require.NoError(t, err, "the outcome of a command of the first server")
	require.True(t, result.OK())
	require.Equal(t, "x", again.ok(t, "read", "once"), "it did not run again")
	result, err = again.outcome(t, cmd)
	require.NoError(t, err, "the outcome of a command of the first server")
	require.True(t, result.OK())

	deaths, stop := second.watch(t)
	require.Equal(t, "both\n", c.ok(t, "echo", "both"), "the first one goes on")
	c.end(t)
	await(t, deaths, c.id)
	require.NoError(t, stop())
	require.NoError(t, second.rt.Destroy(t.Context(), c.id))
	require.False(t, s.listed(t, c.id))
}
