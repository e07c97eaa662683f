package runtimetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// terminal is a command with a terminal.
func (c *container) terminal(args ...string) runtime.TenantCommand {
	cmd := c.tenantCommand(args...)
	cmd.Terminal, cmd.Input = &runtime.TerminalSize{Rows: 24, Columns: 80}, true
	return cmd
}

// A terminal has the size that it is given, and the command learns of changes.
func commandTerminal(t *testing.T, c *container) {
	if isUnsupported(t, c.Limitations.NoProcesses, "terminals") {
		return
	}
	cmd := c.terminal("terminal")
	s := c.open(t, cmd)
	require.True(t, s.Start().Terminal)
	require.True(t, c.status(t, cmd.ID).Terminal)
	r := &received{}
	r.receiveText(t, s, "size=24x80\r\n")
	require.Contains(t, r.all.String(), "terminal=true terminal=true terminal=true controlling=true")
	for _, size := range []runtime.TerminalSize{{Rows: 50, Columns: 132}, {Rows: 1, Columns: 65535}} {
		require.NoError(t, s.Resize(size))
		r.receiveText(t, s, fmt.Sprintf("size=%dx%d\r\n", size.Rows, size.Columns))
	}
	require.NoError(t, s.Input(0, []byte("a line\n")))
	r.receiveText(t, s, "a line\r\n")
	require.NoError(t, s.CloseInput())
	r.receiveText(t, s, "end of input")
	require.True(t, r.follow(t, s).OK())
	require.Empty(t, r.stderr.String())

	r, _ = follow(t, c.open(t, c.terminal("env", "TERM")))
	require.Equal(t, "xterm\r\n", r.stdout.String())
	cmd = c.terminal("env", "TERM")
	cmd.Environment = map[string]string{"TERM": "vt100"}
	r, _ = follow(t, c.open(t, cmd))
	require.Equal(t, "vt100\r\n", r.stdout.String())
	cmd = c.terminal("count", "200000")
	r, _ = follow(t, c.open(t, cmd))
	require.Equal(t, strings.ReplaceAll(numbers(200000), "\n", "\r\n"), r.stdout.String(), "nothing is lost at the end")
}

// The end of the input is one for a terminal, also within a line.
func commandTerminalInput(t *testing.T, c *container) {
	if isUnsupported(t, c.Limitations.NoProcesses, "terminals") {
		return
	}
	for _, text := range []string{"", "line\n", "part of a line"} {
		s := c.open(t, c.terminal("cat"))
		require.NoError(t, s.Input(0, []byte(text)))
		require.NoError(t, s.CloseInput())
		r, result := follow(t, s)
		require.True(t, result.OK())
		require.Contains(t, r.stdout.String(), strings.ReplaceAll(text, "\n", "\r\n"))
	}
	cmd := c.terminal("cat")
	cmd.Input = false
	_, result := follow(t, c.open(t, cmd))
	require.True(t, result.OK(), "without Input it is empty")
}

// Signals reach what is in the foreground of a terminal, also by its characters.
func commandTerminalSignal(t *testing.T, c *container) {
	if isUnsupported(t, c.Limitations.NoProcesses, "terminals") {
		return
	}
	s := c.open(t, c.terminal("noted", "signals"))
	r := &received{}
	r.receiveText(t, s, "noted")
	require.NoError(t, s.Input(0, []byte{3}))
	require.NoError(t, s.Signal("SIGUSR1"))
	eventually(t, "both signals", func() bool {
		result, err := c.exec(t, c.command("read", "signals"))
		got := result.Stdout.String()
		return err == nil && strings.Contains(got, "INT") && strings.Contains(got, "USR1")
	})
	require.NoError(t, s.Signal("SIGKILL"))
	require.Equal(t, "SIGKILL", r.follow(t, s).Signal)

	s = c.open(t, c.terminal("hang"))
	require.NoError(t, s.Input(0, []byte{3}))
	_, result := follow(t, s)
	require.Equal(t, "SIGINT", result.Signal)
}
