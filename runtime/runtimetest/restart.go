package runtimetest

import (
	"testing"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// restartCase tests Restart: every process ends, every file stays.
func restartCase(t *testing.T, s *suite) {
	c := s.start(t)
	before, err := s.rt.Status(t.Context(), c.id)
	require.NoError(t, err)
	c.mustExec(t, "write", "kept", "still here")
	main := c.mustExec(t, "ps", c.testprog+" idle")
	for range 3 {
		require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
		require.Equal(t, runtime.Running, c.state(t, c.id))
		require.Equal(t, "still here", c.mustExec(t, "read", "kept"))
	}
	if !s.Limitations.NoProcesses {
		require.NotEqual(t, main, c.mustExec(t, "ps", c.testprog+" idle"), "another main process")
	}
	after, err := s.rt.Status(t.Context(), c.id)
	require.NoError(t, err)
	require.Equal(t, before.Endpoint, after.Endpoint)

	c.endMain(t)
	require.NoError(t, s.rt.Restart(t.Context(), c.id, 1), "of an exited container")
	require.Equal(t, "still here", c.mustExec(t, "read", "kept"))
}
