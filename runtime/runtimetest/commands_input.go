package runtimetest

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
)

// commandInput is input in pieces, of which one is sent twice.
func commandInput(t *testing.T, c *container) {
	cmd := c.tenantCommand("cat")
	cmd.Input = true
	s := c.open(t, cmd)
	require.False(t, s.Start().InputClosed)
	require.NoError(t, s.Input(0, []byte("one ")))
	require.NoError(t, s.Input(0, []byte("one two")))
	require.NoError(t, s.Input(2, []byte("xx")), "it was received")
	require.Error(t, s.Input(8, []byte("x")), "a gap")
	r := &received{}
	r.receiveText(t, s, "one two")
	require.NoError(t, s.CloseInput())
	require.NoError(t, s.CloseInput(), "again")
	require.Error(t, s.Input(7, []byte("x")))
	require.True(t, r.follow(t, s).OK())
	require.Equal(t, "one two", r.stdout.String())

	text := strings.Repeat("0123456789abcdef", 3<<16)
	cmd = c.tenantCommand("hash")
	cmd.Input = true
	s = c.open(t, cmd)
	require.NoError(t, s.Input(0, []byte(text)))
	require.NoError(t, s.CloseInput())
	r, _ = follow(t, s)
	require.Equal(t, fmt.Sprintf("%d %x\n", len(text), sha256.Sum256([]byte(text))), r.stdout.String())

	r, _ = c.run(t, "hash")
	require.Equal(t, fmt.Sprintf("0 %x\n", sha256.Sum256(nil)), r.stdout.String(), "without Input there is none")
}

// Input that is not read is bounded: it waits in the caller until the command ends.
func commandUnreadInput(t *testing.T, c *container) {
	if isUnsupported(t, c.Limitations.NoProcesses || c.Limitations.NoKernel, "input that is in transit") {
		return
	}
	cmd := c.tenantCommand("hang")
	cmd.Input = true
	s := c.open(t, cmd)
	const some, size = 300 << 10, 8 << 20
	require.NoError(t, s.Input(0, make([]byte, some)), "more than is in transit at once")
	sent := make(chan error, 1)
	go func() { sent <- s.Input(some, make([]byte, size)) }() // ends with the attachment
	again := c.attach(t, cmd.ID, 0)
	require.ErrorIs(t, <-sent, runtime.ErrAttachedElsewhere)
	received := again.Start().InputReceived
	require.Positive(t, received)
	require.Less(t, received, int64(some))
	go func() { sent <- again.Input(received, make([]byte, size)) }() // ends with the command
	require.NoError(t, c.rt.EndCommand(t.Context(), c.id, cmd.ID, commandFence))
	_, result := follow(t, again)
	require.Equal(t, "SIGTERM", result.Signal)
	require.NoError(t, <-sent, "it is discarded")
}

// A command may close its streams before it ends.
func commandClosedStreams(t *testing.T, c *container) {
	cmd := c.tenantCommand("mute")
	cmd.Input = true
	s := c.open(t, cmd)
	if !c.Limitations.NoProcesses {
		require.NoError(t, s.Input(0, make([]byte, 1<<20)), "it is discarded")
	}
	require.NoError(t, c.rt.EndCommand(t.Context(), c.id, cmd.ID, commandFence))
	r, result := follow(t, s)
	require.Empty(t, r.all.String())
	require.Equal(t, "SIGTERM", result.Signal)
	require.NoError(t, s.Input(1<<20, []byte("x")), "after the end")
	require.NoError(t, s.CloseInput())
}

// commandSignal are signals to a command.
func commandSignal(t *testing.T, c *container) {
	s := c.open(t, c.tenantCommand("noted", "signals"))
	r := &received{}
	r.receiveText(t, s, "noted")
	for _, name := range []string{"SIGUSR1", "INT"} {
		require.NoError(t, s.Signal(name))
		noted := strings.TrimPrefix(name, "SIG")
		testenv.AwaitTrue(t, name, func() bool {
			result, err := c.exec(t, c.command("read", "signals"))
			return err == nil && strings.Contains(result.Stdout.String(), noted)
		})
	}
	require.Error(t, s.Signal("SIGNONE"))
	require.NoError(t, s.Resize(runtime.TerminalSize{Rows: 1, Columns: 1}), "it has no terminal")
	require.NoError(t, s.Signal("SIGKILL"))
	result := r.follow(t, s)
	require.Equal(t, "SIGKILL", result.Signal)
	require.False(t, result.Killed)
	require.NoError(t, s.Signal("SIGKILL"), "after the end")
}

// A command ends with its timeout: SIGTERM, and SIGKILL after the grace.
func commandTimeout(t *testing.T, c *container) {
	cmd := c.tenantCommand("hang")
	cmd.Timeout = shortTimeout
	_, result := follow(t, c.open(t, cmd))
	require.True(t, result.TimedOut)
	require.Equal(t, "SIGTERM", result.Signal)

	// On a busy machine the timeout may come before the command ignores SIGTERM: then
	// it is extended.
	for timeout := shortTimeout; ; timeout *= 2 {
		cmd = c.tenantCommand("ignore-term")
		cmd.Timeout, cmd.Grace = timeout, new(100*time.Millisecond)
		r, result := follow(t, c.open(t, cmd))
		require.True(t, result.TimedOut)
		if r.all.Len() > 0 || timeout > killTimeout {
			require.True(t, result.Killed)
			require.Equal(t, "SIGKILL", result.Signal)
			return
		}
	}
}
