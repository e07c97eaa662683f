package runtimetest

import (
	"testing"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// restart is Restart: every process goes, every file stays.
func restart(t *testing.T, s *suite) {
	c := s.start(t)
	before, err := s.rt.Status(t.Context(), c.id)
	require.NoError(t, err)
	c.ok(t, "write", "kept", "still here")
	main := c.ok(t, "ps", c.box+" idle")
	for range 3 {
		require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
		require.Equal(t, runtime.Running, c.state(t, c.id))
		require.Equal(t, "still here", c.ok(t, "read", "kept"))
	}
	if !s.Facts.NoProcesses {
		require.NotEqual(t, main, c.ok(t, "ps", c.box+" idle"), "another main process")
	}
	after, err := s.rt.Status(t.Context(), c.id)
	require.NoError(t, err)
	require.Equal(t, before.Endpoint, after.Endpoint)

	c.end(t)
	require.NoError(t, s.rt.Restart(t.Context(), c.id, 1), "of a container that has ended")
	require.Equal(t, "still here", c.ok(t, "read", "kept"))
}
