package runtimetest

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// commandFence is that of the claim whose commands are tested.
const commandFence = 2

// commandCases are the commands of tenants, with streams.
func commandCases(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.NoCommands, "commands of tenants") {
		return
	}
	for _, k := range []struct {
		name string
		run  func(t *testing.T, c *container)
	}{
		{"output", commandOutput}, {"result", commandResult}, {"surroundings", commandSurroundings},
		{"start errors", commandStartErrors}, {"leftover", commandLeftover},
		{"input", commandInput}, {"unread input", commandUnreadInput}, {"closed streams", commandClosedStreams},
		{"signal", commandSignal}, {"timeout", commandTimeout},
		{"held back", commandHeldBack}, {"attach again", commandAttachAgain}, {"take over", commandTakeOver}, {"control", commandControl},
		{"another server", commandOfAnotherServer}, {"forgotten", commandForgotten},
		{"list", commandList}, {"limits", commandLimits}, {"end", commandEnd}, {"end all", commandEndAll},
		{"restart", commandRestart}, {"wipe", commandWipe}, {"origin", commandOrigin},
		{"lost worker", commandLostWorker}, {"stopped worker", commandStoppedWorker}, {"container exits", commandOfExitedContainer},
		{"terminal", commandTerminal}, {"terminal input", commandTerminalInput}, {"terminal signal", commandTerminalSignal},
	} {
		t.Run(k.name, func(t *testing.T) {
			s.begin(t)
			t.Parallel()
			c := s.start(t)
			k.run(t, c)
		})
	}
}

// tenantCommand is box with arguments.
func (c *container) tenantCommand(args ...string) runtime.TenantCommand {
	return runtime.TenantCommand{ID: newMarker(), Args: append([]string{c.testprog}, args...), Fence: commandFence}
}

// open opens a command. Its attachment is closed when the test ends.
func (c *container) open(t *testing.T, cmd runtime.TenantCommand) runtime.CommandStream {
	t.Helper()
	stream, err := c.rt.OpenCommand(t.Context(), c.id, cmd)
	require.NoError(t, err, "OpenCommand")
	t.Cleanup(func() { _ = stream.Close() })
	return stream
}

// attach attaches to a command of the claim.
func (c *container) attach(t *testing.T, id string, after int64) runtime.CommandStream {
	t.Helper()
	stream, err := c.rt.AttachCommand(t.Context(), c.id, id, commandFence, after)
	require.NoError(t, err, "AttachCommand")
	t.Cleanup(func() { _ = stream.Close() })
	return stream
}

// received is the output of a command.
type received struct {
	stdout, stderr strings.Builder
	all            strings.Builder
	next           int64
}

// receive reads and acknowledges output until the condition is true. It returns
// false at the end of the output.
func (r *received) receive(t *testing.T, s runtime.CommandStream, until func() bool) bool {
	t.Helper()
	for !until() {
		out, err := s.Next()
		if errors.Is(err, io.EOF) {
			return false
		}
		require.NoError(t, err, "Next, after %q", r.all.String())
		require.Equal(t, r.next, out.Offset, "no byte is missing or repeated")
		require.NotEmpty(t, out.Data)
		r.next += int64(len(out.Data))
		r.all.Write(out.Data)
		if out.Stderr {
			r.stderr.Write(out.Data)
		} else {
			r.stdout.Write(out.Data)
		}
		require.NoError(t, s.Acknowledge(r.next))
	}
	return true
}

// receiveText reads output until it contains a text.
func (r *received) receiveText(t *testing.T, s runtime.CommandStream, text string) {
	t.Helper()
	found := r.receive(t, s, func() bool { return strings.Contains(r.all.String(), text) })
	require.True(t, found, "%q is not in %q", text, r.all.String())
}

// follow reads and acknowledges all output, and returns it with the result.
func follow(t *testing.T, s runtime.CommandStream) (*received, runtime.Result) {
	t.Helper()
	r := &received{next: s.Start().Offset}
	return r, r.follow(t, s)
}

// follow reads the rest of the output, and returns the result.
func (r *received) follow(t *testing.T, s runtime.CommandStream) runtime.Result {
	t.Helper()
	r.receive(t, s, func() bool { return false })
	_, err := s.Next()
	require.ErrorIs(t, err, io.EOF, "again")
	result, err := s.Result()
	require.NoError(t, err, "Result")
	return result
}

// run runs a command to its end.
func (c *container) run(t *testing.T, args ...string) (*received, runtime.Result) {
	t.Helper()
	s := c.open(t, c.tenantCommand(args...))
	r, result := follow(t, s)
	require.NoError(t, s.Close())
	return r, result
}

// Both streams arrive, each byte once, with the number of bytes in the result.
func commandOutput(t *testing.T, c *container) {
	s := c.open(t, c.tenantCommand("both", "200"))
	require.Equal(t, runtime.CommandStart{InputClosed: true, Created: true}, s.Start())
	r, result := follow(t, s)
	require.True(t, result.OK())
	require.Equal(t, 200, strings.Count(r.stdout.String(), "out "))
	require.Equal(t, 200, strings.Count(r.stderr.String(), "err "))
	require.True(t, strings.HasSuffix(r.stdout.String(), "out 199\n"))
	require.Equal(t, runtime.Output{Total: int64(r.stdout.Len())}, result.Stdout)
	require.Equal(t, runtime.Output{Total: int64(r.stderr.Len())}, result.Stderr)
	require.Positive(t, result.Duration)

	r, result = c.run(t, "count", "500000")
	require.True(t, result.OK())
	require.Equal(t, numbers(500000), r.stdout.String(), "far more than is kept")
	r, result = c.run(t, "exit", "0")
	require.True(t, result.OK())
	require.Empty(t, r.all.String())
}

// numbers is what `box count N` prints.
func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		const digits = "0123456789"
		for div := 1000000; div > 0; div /= 10 {
			b.WriteByte(digits[i/div%10])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// A result has the exit code or the signal that ended the command.
func commandResult(t *testing.T, c *container) {
	for name, want := range map[string]runtime.Result{
		"exit 0": {}, "exit 42": {ExitCode: 42}, "exit 255": {ExitCode: 255},
		"signal KILL": {ExitCode: 137, Signal: "SIGKILL"}, "signal TERM": {ExitCode: 143, Signal: "SIGTERM"},
	} {
		_, result := c.run(t, strings.Fields(name)...)
		require.Equal(t, want.ExitCode, result.ExitCode, name)
		require.Equal(t, want.Signal, result.Signal, name)
		require.False(t, result.TimedOut || result.Killed, name)
	}
}

// A command has the environment, the directory and the user that it asks for.
func commandSurroundings(t *testing.T, c *container) {
	cmd := c.tenantCommand("env", "GREETING")
	cmd.Environment = map[string]string{"GREETING": "hello = world"}
	r, _ := follow(t, c.open(t, cmd))
	require.Equal(t, "hello = world\n", r.stdout.String())
	r, _ = c.run(t, "env", "TERM")
	require.Equal(t, "\n", r.stdout.String(), "it has no terminal")
	require.NotEqual(t, "0\n", c.mustExec(t, "env", "HOSTLER_MAIN_PID"))

	r, _ = c.run(t, "pwd")
	require.Equal(t, c.path(t, "/data")+"\n", r.stdout.String(), "the container's own")
	c.mustExec(t, "mkdir", "below", "755")
	cmd = c.tenantCommand("pwd")
	cmd.Workdir = "/data/below"
	r, _ = follow(t, c.open(t, cmd))
	require.Equal(t, c.path(t, "/data/below")+"\n", r.stdout.String())

	r, _ = c.run(t, "id")
	require.Equal(t, c.mustExec(t, "id"), r.stdout.String(), "as that of any other command")
	if isUnsupported(t, c.Limitations.SingleUser, "another user") {
		return
	}
	cmd = c.tenantCommand("id")
	cmd.User = "1234:1235"
	r, _ = follow(t, c.open(t, cmd))
	require.Contains(t, r.stdout.String(), "uid=1234 gid=1235")
}

// A command that cannot be started leaves nothing, and its ID is free.
func commandStartErrors(t *testing.T, c *container) {
	cmd := c.tenantCommand("exit", "0")
	for reason, change := range map[runtime.StartReason]func(*runtime.TenantCommand){
		runtime.StartBinaryNotFound:  func(cmd *runtime.TenantCommand) { cmd.Args = []string{"no-such-program"} },
		runtime.StartWorkdirNotFound: func(cmd *runtime.TenantCommand) { cmd.Workdir = "/no/such/directory" },
		runtime.StartUserNotFound:    func(cmd *runtime.TenantCommand) { cmd.User = "no-such-user" },
		runtime.StartBadInput:        func(cmd *runtime.TenantCommand) { cmd.Args = []string{"a\x00b"} },
	} {
		bad := cmd
		change(&bad)
		_, err := c.rt.OpenCommand(t.Context(), c.id, bad)
		require.Equal(t, reason, startError(t, err))
	}
	all, err := c.rt.Commands(t.Context(), c.id, commandFence)
	require.NoError(t, err)
	require.Empty(t, all)
	_, err = c.rt.AttachCommand(t.Context(), c.id, cmd.ID, commandFence, 0)
	require.ErrorIs(t, err, runtime.ErrUnknownRun)
	require.ErrorIs(t, c.rt.EndCommand(t.Context(), c.id, cmd.ID, commandFence), runtime.ErrUnknownRun)
	_, result := follow(t, c.open(t, cmd))
	require.True(t, result.OK())
}

// What a command leaves behind ends with it.
func commandLeftover(t *testing.T, c *container) {
	if isUnsupported(t, c.Limitations.NoProcesses, "leftover processes") {
		return
	}
	marker := newMarker()
	_, result := c.run(t, "double-fork", marker)
	require.Equal(t, 1, result.Leaked)
	require.Empty(t, c.mustExec(t, "ps", marker))
	c.requireNoZombies(t)

	cmd := c.tenantCommand("farewell", "the last words")
	cmd.Grace = new(time.Hour)
	r, result := follow(t, c.open(t, cmd))
	require.Contains(t, r.stdout.String(), "the last words", "the output of a process that was asked to exit")
	require.False(t, result.Killed)
}
