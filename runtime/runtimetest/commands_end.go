package runtimetest

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
)

// commandList is what Commands returns.
func commandList(t *testing.T, c *container) {
	first, second := c.tenantCommand("hang"), c.tenantCommand("exit", "3")
	c.open(t, first)
	s := c.open(t, second)
	internal := c.tenantCommand("hang")
	internal.Internal = true
	c.open(t, internal)
	for {
		if _, err := s.Next(); err != nil {
			break
		}
	}
	all, err := c.rt.Commands(t.Context(), c.id, commandFence)
	require.NoError(t, err)
	require.Len(t, all, 2, "without that of Hostler itself")
	require.Equal(t, first.ID, all[0].ID)
	require.Equal(t, first.Args, all[0].Args)
	require.True(t, all[0].Attached)
	require.False(t, all[0].Terminal || all[0].Held)
	require.Nil(t, all[0].Ended)
	require.WithinDuration(t, time.Now(), all[0].Started, time.Hour)
	require.Equal(t, second.ID, all[1].ID)
	require.NotNil(t, all[1].Ended)
	require.Equal(t, 3, all[1].Result.ExitCode)

	for _, fence := range []int64{commandFence - 1, commandFence + 1} {
		all, err = c.rt.Commands(t.Context(), c.id, fence)
		require.NoError(t, err)
		require.Empty(t, all, "those of another claim")
		_, err = c.rt.AttachCommand(t.Context(), c.id, first.ID, fence, 0)
		require.ErrorIs(t, err, runtime.ErrUnknownRun)
		require.ErrorIs(t, c.rt.EndCommand(t.Context(), c.id, first.ID, fence), runtime.ErrUnknownRun)
	}
	require.Nil(t, c.status(t, first.ID).Ended)
}

// A tenant who runs as many commands as it may delays neither a command of a server
// nor one of Hostler for the tenant.
func commandLimits(t *testing.T, c *container) {
	var ids []string
	for range runtime.MaxTenantCommands {
		cmd := c.tenantCommand("hang")
		ids = append(ids, cmd.ID)
		require.NoError(t, c.open(t, cmd).Close())
	}
	_, err := c.rt.OpenCommand(t.Context(), c.id, c.tenantCommand("hang"))
	require.ErrorIs(t, err, runtime.ErrTooManyCommands)
	require.Equal(t, "at once\n", c.mustExec(t, "echo", "at once"))
	for range runtime.MaxInternalCommands {
		cmd := c.tenantCommand("hang")
		cmd.Internal = true
		c.open(t, cmd)
	}
	cmd := c.tenantCommand("hang")
	cmd.Internal = true
	_, err = c.rt.OpenCommand(t.Context(), c.id, cmd)
	require.ErrorIs(t, err, runtime.ErrTooManyCommands)

	require.NoError(t, c.rt.EndCommand(t.Context(), c.id, ids[0], commandFence))
	r, result := c.run(t, "exit", "0")
	require.True(t, result.OK(), "there is room for one: %+v\n%s", result, r.all.String())
	require.NoError(t, c.rt.EndCommands(t.Context(), c.id, commandFence, time.Second))
	all, err := c.rt.Commands(t.Context(), c.id, commandFence)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(all), runtime.MaxTenantCommands)
	for _, status := range all {
		require.NotNil(t, status.Ended, "%s", status.ID)
	}
}

// commandEnd is EndCommand.
func commandEnd(t *testing.T, c *container) {
	cmd := c.tenantCommand("ignore-term")
	cmd.Grace = new(100 * time.Millisecond)
	s := c.open(t, cmd)
	r := &received{}
	r.receiveText(t, s, "ignoring")
	require.NoError(t, c.rt.EndCommand(t.Context(), c.id, cmd.ID, commandFence))
	require.NotNil(t, c.status(t, cmd.ID).Ended, "when it returns")
	result := r.follow(t, s)
	require.True(t, result.Killed)
	require.False(t, result.TimedOut)
	require.Equal(t, "SIGKILL", result.Signal)
	require.NoError(t, c.rt.EndCommand(t.Context(), c.id, cmd.ID, commandFence), "it has ended already")
	require.ErrorIs(t, c.rt.EndCommand(t.Context(), c.id, newMarker(), commandFence), runtime.ErrUnknownRun)
}

// commandEndAll is EndCommands: it ends all of them within its grace, and no command
// of the same claim or an earlier one begins with a smaller fence after it.
func commandEndAll(t *testing.T, c *container) {
	require.NoError(t, c.rt.EndCommands(t.Context(), c.id, commandFence, time.Minute), "there is none")
	stubborn := c.tenantCommand("ignore-term")
	stubborn.Grace = new(time.Hour)
	internal := c.tenantCommand("hang")
	internal.Internal = true
	var all []runtime.CommandStream
	for _, cmd := range []runtime.TenantCommand{stubborn, internal, c.tenantCommand("hang")} {
		all = append(all, c.open(t, cmd))
	}
	r := &received{}
	r.receiveText(t, all[0], "ignoring")
	// One that is ending already ends within the grace as well.
	require.NoError(t, all[0].Signal("SIGTERM"))
	require.NoError(t, c.rt.EndCommands(t.Context(), c.id, commandFence+1, 100*time.Millisecond))
	require.Equal(t, "SIGKILL", r.follow(t, all[0]).Signal)
	for _, s := range all[1:] {
		_, result := follow(t, s)
		require.NotEmpty(t, result.Signal)
	}

	_, err := c.rt.OpenCommand(t.Context(), c.id, c.tenantCommand("exit", "0"))
	require.ErrorIs(t, err, runtime.ErrStaleFence)
	require.ErrorIs(t, c.rt.EndCommands(t.Context(), c.id, commandFence, 0), runtime.ErrStaleFence)
	cmd := c.tenantCommand("exit", "0")
	cmd.Fence = commandFence + 1
	_, result := follow(t, c.open(t, cmd))
	require.True(t, result.OK())
}

// A restart and a stop end the commands.
func commandRestart(t *testing.T, c *container) {
	for _, change := range []func() error{
		func() error { return c.rt.Restart(t.Context(), c.id, commandFence) },
		func() error { return c.rt.Stop(t.Context(), c.id, commandFence) },
	} {
		cmd := c.tenantCommand("count", "100")
		cmd.Args = []string{c.testprog, "ignore-term"}
		s := c.open(t, cmd)
		r := &received{}
		r.receiveText(t, s, "ignoring")
		require.NoError(t, change())
		r.receive(t, s, func() bool { return false })
		_, err := s.Result()
		require.ErrorIs(t, err, runtime.ErrContainerExited)
	}
	_, err := c.rt.OpenCommand(t.Context(), c.id, c.tenantCommand("exit", "0"))
	require.ErrorIs(t, err, runtime.ErrNotRunning)
	require.NoError(t, c.rt.Restart(t.Context(), c.id, commandFence))
	_, result := c.run(t, "exit", "0")
	require.True(t, result.OK())
}

// The next tenant learns nothing of the commands of this one.
func commandWipe(t *testing.T, c *container) {
	require.NoError(t, c.rt.RecordBaseline(t.Context(), c.id, commandFence))
	running, ended := c.tenantCommand("hang"), c.tenantCommand("echo", "secret")
	c.open(t, running)
	s := c.open(t, ended)
	for {
		if _, err := s.Next(); err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
	}
	if err := c.rt.Wipe(t.Context(), c.id, commandFence+1); !c.Limitations.WipeUnverifiable {
		require.NoError(t, err, "Wipe")
	}
	all, err := c.rt.Commands(t.Context(), c.id, commandFence)
	require.NoError(t, err)
	require.Empty(t, all)
	for _, cmd := range []runtime.TenantCommand{running, ended} {
		_, err = c.rt.AttachCommand(t.Context(), c.id, cmd.ID, commandFence, 0)
		require.ErrorIs(t, err, runtime.ErrUnknownRun)
	}
}

// A request of a tenant's command is not one of a hook.
func commandOrigin(t *testing.T, c *container) {
	server := c.serve(t, c.rt, commandFence)
	testenv.AwaitTrue(t, "a request of a command of the tenant is served", func() bool {
		r, result := c.run(t, "ask", newMarker(), "name", "body")
		return result.OK() && strings.Contains(r.stdout.String(), "body")
	})
	server.mu.Lock()
	defer server.mu.Unlock()
	for _, request := range server.received {
		require.False(t, request.FromHook)
		require.Empty(t, request.RunID)
		require.Equal(t, int64(commandFence), request.Fence)
	}
}

// terminal is a command with a terminal.
func (c *container) terminal(args ...string) runtime.TenantCommand {
	cmd := c.tenantCommand(args...)
	cmd.Terminal, cmd.Input = &runtime.TerminalSize{Rows: 24, Columns: 80}, true
	return cmd
}

// A terminal has the size that it is given, and the command learns of changes.
func commandTerminal(t *testing.T, c *container) {
	if isUnsupported(t, c.Limitations.NoProcesses || c.Limitations.NoKernel, "terminals") {
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
	if isUnsupported(t, c.Limitations.NoProcesses || c.Limitations.NoKernel, "terminals") {
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
	if isUnsupported(t, c.Limitations.NoProcesses || c.Limitations.NoKernel, "terminals") {
		return
	}
	s := c.open(t, c.terminal("noted", "signals"))
	r := &received{}
	r.receiveText(t, s, "noted")
	require.NoError(t, s.Input(0, []byte{3}))
	require.NoError(t, s.Signal("SIGUSR1"))
	testenv.AwaitTrue(t, "both signals", func() bool {
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
