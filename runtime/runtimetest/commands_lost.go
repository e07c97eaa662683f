package runtimetest

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
)

// attackWorker has a command send a signal to the process that supervises it. It
// returns the error of the command, or false if the signal is not permitted.
func (c *container) attackWorker(t *testing.T, signal string) (lost error, permitted bool) {
	t.Helper()
	if isUnsupported(t, c.Limitations.NoProcesses || c.Limitations.NoKernel, "to have its shim killed") {
		return nil, false
	}
	cmd := c.tenantCommand("kill", "shim", signal)
	if !c.Limitations.SingleUser {
		cmd.User = "0"
	}
	s, err := c.rt.OpenCommand(t.Context(), c.id, cmd)
	if errors.Is(err, runtime.ErrTainted) {
		return err, true // before the worker had reported the start
	}
	require.NoError(t, err, "OpenCommand")
	t.Cleanup(func() { _ = s.Close() })
	ended := make(chan error, 1)
	go func() { // ends with the command
		_, err := s.Next()
		for err == nil {
			_, err = s.Next()
		}
		ended <- err
	}()
	testenv.AwaitTrue(t, "it has ended, or its worker is stopped", func() bool {
		return len(ended) > 0 || c.mustExec(t, "stopped") != "0\n"
	})
	endErr := c.rt.EndCommand(t.Context(), c.id, cmd.ID, commandFence)
	require.ErrorIs(t, <-ended, io.EOF)
	result, err := s.Result()
	if err == nil {
		require.NoError(t, endErr)
		require.Equal(t, 1, result.ExitCode, "it was not permitted to")
		return nil, false
	}
	require.ErrorIs(t, endErr, runtime.ErrTainted)
	return err, true
}

// Whatever a command does to the process that supervises it: what may be left of the
// command is reported, until every process was ended.
func (c *container) requireUncertain(t *testing.T, signal string) {
	t.Helper()
	lost, permitted := c.attackWorker(t, signal)
	if !permitted {
		return
	}
	require.ErrorIs(t, lost, runtime.ErrTainted)
	require.ErrorIs(t, c.rt.EndCommands(t.Context(), c.id, commandFence, 0), runtime.ErrTainted)
	require.NoError(t, c.rt.Restart(t.Context(), c.id, commandFence))
	require.NoError(t, c.rt.EndCommands(t.Context(), c.id, commandFence, 0))
	_, result := c.run(t, "exit", "0")
	require.True(t, result.OK())
}

func commandLostWorker(t *testing.T, c *container)    { c.requireUncertain(t, "KILL") }
func commandStoppedWorker(t *testing.T, c *container) { c.requireUncertain(t, "STOP") }

// The commands of a container that exits are gone: its client learns of that when it
// attaches again.
func commandOfExitedContainer(t *testing.T, c *container) {
	cmd := c.tenantCommand("hang")
	s := c.open(t, cmd)
	endByMain(t, c)
	_, err := s.Next()
	if errors.Is(err, io.EOF) { // its end was sent just before that
		_, err = s.Result()
		require.ErrorIs(t, err, runtime.ErrContainerExited)
	} else {
		require.ErrorIs(t, err, runtime.ErrUnavailable)
	}
	testenv.AwaitTrue(t, "it has exited", func() bool { return c.state(t, c.id) == runtime.Exited })
	_, err = c.rt.AttachCommand(t.Context(), c.id, cmd.ID, commandFence, 0)
	require.ErrorIs(t, err, runtime.ErrNotRunning)
	require.NoError(t, c.rt.Restart(t.Context(), c.id, commandFence))
	_, err = c.rt.AttachCommand(t.Context(), c.id, cmd.ID, commandFence, 0)
	require.ErrorIs(t, err, runtime.ErrUnknownRun)
}
