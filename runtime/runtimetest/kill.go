package runtimetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// killCases tests the main promise: when Exec returns, nothing of the command is
// left, whatever it tries.
func killCases(t *testing.T, s *suite) {
	cases := []struct {
		name string
		run  func(t *testing.T, c *container)
	}{
		{"timeout", timeout},
		{"ignores SIGTERM", ignoresSIGTERM},
		{"double fork", daemonised("double-fork")},
		{"separate session", daemonised("setsid")},
		{"fork storm", forkStorm},
		{"cancelled", cancelled},
		{"canceled before", cancelledBefore},
		{"others are unaffected", otherCommandsUnaffected},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			k.run(t, s.start(t))
		})
	}
}

const (
	shortTimeout = 300 * time.Millisecond // a timeout
	shortGrace   = 200 * time.Millisecond
	// killTimeout is far below the time of a command that hangs, and far above what
	// a busy machine needs to kill one.
	killTimeout = 20 * time.Second
)

// requireNoProcess asserts that no process with the marker is running.
func (c *container) requireNoProcess(t *testing.T, marker string) {
	t.Helper()
	require.Empty(t, c.mustExec(t, "ps", marker))
}

func timeout(t *testing.T, c *container) {
	marker := newMarker()
	cmd := c.command("hang", marker)
	cmd.Timeout, cmd.Grace = shortTimeout, new(time.Hour)
	result, err := c.exec(t, cmd)
	require.NoError(t, err)
	require.True(t, result.TimedOut)
	require.False(t, result.Killed, "SIGTERM was enough")
	require.False(t, result.OK())
	require.GreaterOrEqual(t, result.Duration, shortTimeout)
	require.Equal(t, 143, result.ExitCode)
	require.Equal(t, "SIGTERM", result.Signal)
	c.requireNoProcess(t, marker)
}

func ignoresSIGTERM(t *testing.T, c *container) {
	marker := newMarker()
	result := c.runIgnoringSIGTERM(t, "ignore-term", marker)
	require.True(t, result.TimedOut && result.Killed)
	require.Equal(t, "SIGKILL", result.Signal)
	require.Equal(t, 137, result.ExitCode)
	require.GreaterOrEqual(t, result.Duration, shortTimeout+shortGrace)
	require.Less(t, result.Duration, killTimeout)
	require.Equal(t, "ignoring\n", result.Stdout.String(), "what it printed before is kept")
	c.requireNoProcess(t, marker)
}

// runIgnoringSIGTERM runs a command that prints a line when it ignores SIGTERM,
// until its timeout. On a busy machine the timeout may come first: then it is
// extended.
func (c *container) runIgnoringSIGTERM(t *testing.T, args ...string) runtime.Result {
	t.Helper()
	cmd := c.command(args...)
	cmd.Grace = new(shortGrace)
	for cmd.Timeout = shortTimeout; ; cmd.Timeout *= 2 {
		result, err := c.exec(t, cmd)
		require.NoError(t, err)
		if result.Stdout.Total > 0 || cmd.Timeout > killTimeout/4 {
			return result
		}
	}
}

// A daemon does not outlive its command, and is counted.
func daemonised(how string) func(t *testing.T, c *container) {
	return func(t *testing.T, c *container) {
		marker := newMarker()
		result, err := c.exec(t, c.command(how, marker))
		require.NoError(t, err)
		require.True(t, result.OK(), "the command itself succeeded")
		require.Equal(t, 1, result.Leaked)
		require.False(t, result.TimedOut)
		c.requireNoProcess(t, marker)
	}
}

func forkStorm(t *testing.T, c *container) {
	marker := newMarker()
	result := c.runIgnoringSIGTERM(t, "forkstorm", marker)
	require.True(t, result.TimedOut && result.Killed)
	require.Less(t, result.Duration, killTimeout)
	c.requireNoProcess(t, marker)
}

var errCancelled = errors.New("enough")

func cancelled(t *testing.T, c *container) {
	marker := newMarker()
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { // ends with the command
		_, err := c.rt.Exec(ctx, c.id, c.command("hang", marker))
		done <- err
	}()
	testenv.AwaitTrue(t, "the command runs", func() bool { return c.mustExec(t, "ps", marker) != "" })
	cancel(errCancelled)
	require.ErrorIs(t, <-done, errCancelled)
	c.requireNoProcess(t, marker)
	require.Equal(t, "next\n", c.mustExec(t, "echo", "next"))
}

func cancelledBefore(t *testing.T, c *container) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCancelled)
	_, err := c.rt.Exec(ctx, c.id, c.command("write", "/data/written", "x"))
	require.ErrorIs(t, err, errCancelled)
	result, err := c.exec(t, c.command("read", "written"))
	require.NoError(t, err)
	require.Equal(t, 1, result.ExitCode, "it never ran")
}

// Ending one command affects neither another one nor the main process. One command
// can pause another one, continue and end it.
func otherCommandsUnaffected(t *testing.T, c *container) {
	type outcome struct {
		result runtime.Result
		err    error
	}
	marker, done := newMarker(), make(chan outcome, 1)
	go func() { // ends with the command, which is killed below
		result, err := c.rt.Exec(t.Context(), c.id, c.command("hang", marker))
		done <- outcome{result, err}
	}()
	var pid string
	testenv.AwaitTrue(t, "the command runs", func() bool {
		pid, _, _ = strings.Cut(c.mustExec(t, "ps", marker), " ")
		return pid != ""
	})
	cmd := c.command("ignore-term", newMarker())
	cmd.Timeout, cmd.Grace = shortTimeout, new(shortGrace)
	_, err := c.exec(t, cmd)
	require.NoError(t, err)
	require.NotEmpty(t, c.mustExec(t, "ps", marker), "the other command is still running")
	if !isUnsupported(t, c.Limitations.NoKernel, "paused processes") {
		c.mustExec(t, "kill", pid, "STOP")
		testenv.AwaitTrue(t, "it is paused", func() bool { return c.mustExec(t, "state", pid) == "T\n" })
		c.mustExec(t, "kill", pid, "CONT")
		testenv.AwaitTrue(t, "it continues", func() bool { return c.mustExec(t, "state", pid) != "T\n" })
	}
	c.mustExec(t, "kill", pid, "TERM")
	other := <-done
	require.NoError(t, other.err)
	require.Equal(t, "SIGTERM", other.result.Signal, "its own signal has ended it")
	require.False(t, other.result.TimedOut)
	require.Equal(t, runtime.Running, c.state(t, c.id))
}
