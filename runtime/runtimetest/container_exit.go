package runtimetest

import (
	"errors"
	"testing"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// containerExitCases are commands whose container exits while they run.
func containerExitCases(t *testing.T, s *suite) {
	cases := []struct {
		name string
		end  func(t *testing.T, c *container)
	}{
		{"main exits", endByMain},
		{"destroyed", func(t *testing.T, c *container) {
			require.NoError(t, c.rt.Destroy(t.Context(), c.id))
		}},
		{"restarted", func(t *testing.T, c *container) {
			require.NoError(t, c.rt.Restart(t.Context(), c.id, 1))
		}},
		{"started by a later flow", func(t *testing.T, c *container) {
			require.NoError(t, c.rt.Start(t.Context(), c.id, 2))
		}},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			c := s.start(t)
			marker, done := newMarker(), make(chan error, 1)
			go func() { // ends with the container
				_, err := c.rt.Exec(t.Context(), c.id, c.command("hang", marker))
				done <- err
			}()
			testenv.AwaitTrue(t, "the command runs", func() bool { return c.mustExec(t, "ps", marker) != "" })
			k.end(t, c)
			require.ErrorIs(t, testenv.Await(t, done, "Exec returns"), runtime.ErrContainerExited)
		})
	}
	t.Run("worker killed", func(t *testing.T) {
		t.Parallel()
		workerKilled(t, s)
	})
}

// endByMain ends the container by its main process, and does not wait.
func endByMain(t *testing.T, c *container) {
	t.Helper()
	_, _ = c.exec(t, c.command("kill", "main", "TERM")) // the response may be lost
}

// A command with sufficient permissions may kill the process that supervises it.
// Then its outcome is an error, never a success.
func workerKilled(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.NoProcesses, "to have its shim killed") {
		return
	}
	c := s.start(t)
	cmd := c.command("kill", "shim", "KILL")
	cmd.RunID = newMarker()
	if !s.Limitations.SingleUser {
		cmd.User = "0"
	}
	result, err := c.exec(t, cmd)
	if err == nil {
		require.Equal(t, 1, result.ExitCode, "it was not permitted to")
		return
	}
	require.True(t, errors.Is(err, runtime.ErrTainted) || errors.Is(err, runtime.ErrContainerExited), "%v", err)
	if errors.Is(err, runtime.ErrTainted) {
		_, err = c.waitResult(t, cmd)
		require.ErrorIs(t, err, runtime.ErrTainted, "a later request returns the same")
	}
}
