package fake_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

const claimFence = 2

func tenantCommand(id string, args ...string) runtime.TenantCommand {
	return runtime.TenantCommand{ID: id, Args: append([]string{"box"}, args...), Fence: claimFence}
}

func openCommand(t *testing.T, rt *fake.Runtime, id string, cmd runtime.TenantCommand) runtime.CommandStream {
	t.Helper()
	s, err := rt.OpenCommand(t.Context(), id, cmd)
	require.NoError(t, err)
	return s
}

// readOutput reads and acknowledges output up to the end of the command.
func readOutput(t *testing.T, s runtime.CommandStream) (stdout, stderr string) {
	t.Helper()
	for {
		out, err := s.Next()
		if errors.Is(err, io.EOF) {
			return stdout, stderr
		}
		require.NoError(t, err)
		if out.Stderr {
			stderr += string(out.Data)
		} else {
			stdout += string(out.Data)
		}
		require.NoError(t, s.Acknowledge(out.Offset+int64(len(out.Data))))
	}
}

// A command has its own streams, receives each byte of input once, and is forgotten
// when a client that has received its end and all of its output detaches.
func TestTenantCommandStreams(t *testing.T) {
	rt := fake.New()
	id := startContainer(t, rt)
	cmd := tenantCommand("one", "cat")
	cmd.Input = true
	s := openCommand(t, rt, id, cmd)
	require.True(t, s.Start().Created)
	require.NoError(t, s.Input(0, []byte("abc")))
	require.NoError(t, s.Input(1, []byte("bcd")))
	require.Error(t, s.Input(9, []byte("x")), "bytes are missing before it")
	require.NoError(t, s.CloseInput())
	stdout, stderr := readOutput(t, s)
	require.Equal(t, "abcd", stdout)
	require.Empty(t, stderr)
	result, err := s.Result()
	require.NoError(t, err)
	require.True(t, result.OK())
	require.Equal(t, runtime.Output{Total: 4}, result.Stdout)
	require.NoError(t, s.Close())
	_, err = rt.AttachCommand(t.Context(), id, "one", claimFence, 0)
	require.ErrorIs(t, err, runtime.ErrUnknownRun)

	s = openCommand(t, rt, id, tenantCommand("two", "err", "oops"))
	_, stderr = readOutput(t, s)
	require.Equal(t, "oops\n", stderr)
}

// A command that writes more than a container keeps waits until output is
// acknowledged, and no byte is lost by another attachment.
func TestTenantCommandIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New()
		id := startContainer(t, rt)
		const total = 3*runtime.CommandBuffer + 7
		first := openCommand(t, rt, id, tenantCommand("big", "repeat", "x", fmt.Sprint(total)))
		synctest.Wait()
		list, err := rt.Commands(t.Context(), id, claimFence)
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.True(t, list[0].Held)
		require.True(t, list[0].Attached)
		require.Equal(t, int64(runtime.CommandBuffer), list[0].Output)

		out, err := first.Next()
		require.NoError(t, err)
		received := int64(len(out.Data))
		second, err := rt.AttachCommand(t.Context(), id, "big", claimFence, received)
		require.NoError(t, err)
		_, err = first.Next()
		require.ErrorIs(t, err, runtime.ErrAttachedElsewhere)
		require.ErrorIs(t, first.Acknowledge(received), runtime.ErrAttachedElsewhere)
		rest, _ := readOutput(t, second)
		require.Equal(t, int64(total), received+int64(len(rest)))
		_, err = second.Result()
		require.NoError(t, err)
	})
}

// A lost connection ends no command: its output can be read again, but not what
// was acknowledged.
func TestTenantCommandAttachAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New()
		id := startContainer(t, rt)
		s := openCommand(t, rt, id, tenantCommand("idle", "idle"))
		out, err := s.Next()
		require.NoError(t, err)
		require.Equal(t, "idle\n", string(out.Data))
		rt.SetDown(true)
		_, err = s.Next()
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		rt.SetDown(false)

		s = openCommand(t, rt, id, tenantCommand("idle", "idle"))
		require.False(t, s.Start().Created)
		out, err = s.Next()
		require.NoError(t, err)
		require.Equal(t, "idle\n", string(out.Data))
		require.NoError(t, s.Acknowledge(5))
		require.NoError(t, s.Close())
		_, err = rt.AttachCommand(t.Context(), id, "idle", claimFence, 4)
		require.ErrorIs(t, err, runtime.ErrOutputLost)

		require.NoError(t, rt.EndCommand(t.Context(), id, "idle", claimFence))
		_, err = rt.AttachCommand(t.Context(), id, "idle", claimFence, 5)
		require.NoError(t, err)
		<-time.After(runtime.EndedCommandTTL) // of the bubble's clock
		_, err = rt.AttachCommand(t.Context(), id, "idle", claimFence, 5)
		require.ErrorIs(t, err, runtime.ErrUnknownRun)
	})
}

// EndCommands ends what ignores SIGTERM at the end of the grace, and no command of
// the earlier claim starts afterwards.
func TestEndCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New()
		id := startContainer(t, rt)
		s := openCommand(t, rt, id, func() runtime.TenantCommand {
			cmd := tenantCommand("stubborn", "forkstorm", "m")
			cmd.Grace = new(time.Hour)
			return cmd
		}())
		synctest.Wait()
		start := time.Now()
		require.NoError(t, rt.EndCommands(t.Context(), id, claimFence+1, 3*time.Second))
		require.Equal(t, 3*time.Second, time.Since(start))
		readOutput(t, s)
		result, err := s.Result()
		require.NoError(t, err)
		require.True(t, result.Killed)
		require.False(t, result.TimedOut)
		_, err = rt.OpenCommand(t.Context(), id, tenantCommand("late", "echo"))
		require.ErrorIs(t, err, runtime.ErrStaleFence)
		require.ErrorIs(t, rt.EndCommands(t.Context(), id, claimFence, 0), runtime.ErrStaleFence)
	})
}

// Only so many commands run at once; internal ones are counted apart, and not listed.
func TestTenantCommandLimits(t *testing.T) {
	rt := fake.New()
	id := startContainer(t, rt)
	for i := range runtime.MaxTenantCommands {
		openCommand(t, rt, id, tenantCommand(fmt.Sprint("c", i), "hang"))
	}
	_, err := rt.OpenCommand(t.Context(), id, tenantCommand("more", "hang"))
	require.ErrorIs(t, err, runtime.ErrTooManyCommands)
	for i := range runtime.MaxInternalCommands {
		cmd := tenantCommand(fmt.Sprint("i", i), "hang")
		cmd.Internal = true
		openCommand(t, rt, id, cmd)
	}
	internal := tenantCommand("more", "hang")
	internal.Internal = true
	_, err = rt.OpenCommand(t.Context(), id, internal)
	require.ErrorIs(t, err, runtime.ErrTooManyCommands)
	list, err := rt.Commands(t.Context(), id, claimFence)
	require.NoError(t, err)
	require.Len(t, list, runtime.MaxTenantCommands)
	require.NoError(t, rt.EndCommands(t.Context(), id, claimFence, time.Second))
}

// What ends every process ends commands, blocked ones too, with an unknown outcome.
// After an exit and a wipe the container knows none of them.
func TestTenantCommandsEndWithTheContainer(t *testing.T) {
	for name, tt := range map[string]struct {
		end   func(ctx context.Context, rt *fake.Runtime, id string) error
		after error // of an attachment
	}{
		"restart": {func(ctx context.Context, rt *fake.Runtime, id string) error { return rt.Restart(ctx, id, 3) }, nil},
		"stop":    {func(ctx context.Context, rt *fake.Runtime, id string) error { return rt.Stop(ctx, id, 3) }, nil},
		"wipe":    {func(ctx context.Context, rt *fake.Runtime, id string) error { return rt.Wipe(ctx, id, 3) }, runtime.ErrUnknownRun},
		"exit":    {func(_ context.Context, rt *fake.Runtime, id string) error { rt.Kill(id); return nil }, runtime.ErrNotRunning},
		"destroy": {func(ctx context.Context, rt *fake.Runtime, id string) error { return rt.Destroy(ctx, id) }, runtime.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			rt := fake.New()
			id := startContainer(t, rt)
			require.NoError(t, rt.RecordBaseline(t.Context(), id, 1))
			reading := tenantCommand("reading", "cat")
			reading.Input = true
			streams := []runtime.CommandStream{
				openCommand(t, rt, id, reading),
				openCommand(t, rt, id, tenantCommand("writing", "repeat", "x", "3000000")),
				openCommand(t, rt, id, tenantCommand("parked", "hang")),
			}
			require.NoError(t, tt.end(t.Context(), rt, id))
			for _, s := range streams {
				readOutput(t, s)
				_, err := s.Result()
				require.ErrorIs(t, err, runtime.ErrContainerExited)
			}
			cmd := tenantCommand("parked", "hang")
			_, err := rt.OpenCommand(t.Context(), id, cmd)
			require.Error(t, err)
			_, err = rt.AttachCommand(t.Context(), id, "parked", claimFence, 0)
			require.ErrorIs(t, err, tt.after)
		})
	}
}

// A command of an earlier claim is unknown to a later one, under the same id too.
func TestTenantCommandsOfAnotherClaim(t *testing.T) {
	rt := fake.New()
	id := startContainer(t, rt)
	openCommand(t, rt, id, tenantCommand("same", "hang"))
	require.NoError(t, rt.EndCommands(t.Context(), id, 3, time.Second))
	_, err := rt.AttachCommand(t.Context(), id, "same", 3, 0)
	require.ErrorIs(t, err, runtime.ErrUnknownRun)
	require.ErrorIs(t, rt.EndCommand(t.Context(), id, "same", 3), runtime.ErrUnknownRun)
	list, err := rt.Commands(t.Context(), id, 3)
	require.NoError(t, err)
	require.Empty(t, list)
	cmd := tenantCommand("same", "echo", "mine")
	cmd.Fence = 3
	s := openCommand(t, rt, id, cmd)
	require.True(t, s.Start().Created)
	stdout, _ := readOutput(t, s)
	require.Equal(t, "mine\n", stdout)
}

// A terminal has a size that can change, and one stream.
func TestTenantCommandTerminal(t *testing.T) {
	rt := fake.New()
	sizes := make(chan runtime.TerminalSize, 2)
	rt.AddProgram("top", func(_ context.Context, p *fake.Proc) int {
		report := func() {
			size, _ := p.TerminalSize()
			sizes <- size
		}
		p.OnSignal("SIGWINCH", report)
		p.OnSignal("SIGINT", func() { p.Exit(7) })
		report()
		fmt.Fprint(p.Stderr, "on stdout")
		return fake.Park
	})
	id := startContainer(t, rt)
	s := openCommand(t, rt, id, runtime.TenantCommand{
		ID: "t", Args: []string{"top"}, Terminal: &runtime.TerminalSize{Rows: 24, Columns: 80}, Fence: claimFence,
	})
	require.Equal(t, runtime.TerminalSize{Rows: 24, Columns: 80}, <-sizes)
	require.NoError(t, s.Resize(runtime.TerminalSize{Rows: 50, Columns: 100}))
	require.Equal(t, runtime.TerminalSize{Rows: 50, Columns: 100}, <-sizes)
	require.Error(t, s.Signal("SIGNONE"))
	out, err := s.Next()
	require.NoError(t, err)
	require.False(t, out.Stderr)
	require.NoError(t, s.Signal("SIGINT"))
	readOutput(t, s)
	result, err := s.Result()
	require.NoError(t, err)
	require.Equal(t, 7, result.ExitCode)
}

// Faults can be injected into the calls, and a command that cannot start is a
// StartError.
func TestTenantCommandErrors(t *testing.T) {
	rt := fake.New()
	id := startContainer(t, rt)
	for name, cmd := range map[string]runtime.TenantCommand{
		"id":      {ID: "a b", Args: []string{"true"}},
		"program": {ID: "a", Args: []string{"none"}},
		"user":    {ID: "a", Args: []string{"true"}, User: "stranger"},
		"argv":    {ID: "a", Args: []string{strings.Repeat("x", 1<<20)}},
	} {
		_, err := rt.OpenCommand(t.Context(), id, cmd)
		_, ok := errors.AsType[*runtime.StartError](err)
		require.True(t, ok, "%s: %v", name, err)
	}
	rt.BreakOnce("open_command "+id+" box echo", runtime.ErrUnavailable)
	_, err := rt.OpenCommand(t.Context(), id, tenantCommand("b", "echo"))
	require.ErrorIs(t, err, runtime.ErrUnavailable)
	openCommand(t, rt, id, tenantCommand("b", "echo"))
	require.Contains(t, rt.Calls(), "open_command "+id+" box echo")
}

// Input that a command does not read waits in the caller, until another attachment
// takes its place or the command ends.
func TestTenantCommandInputIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New()
		id := startContainer(t, rt)
		cmd := tenantCommand("unread", "hang")
		cmd.Input = true
		first := openCommand(t, rt, id, cmd)
		sent := make(chan error)
		go func() { sent <- first.Input(0, make([]byte, 1<<20)) }()
		synctest.Wait()
		second, err := rt.AttachCommand(t.Context(), id, "unread", claimFence, 0)
		require.NoError(t, err)
		require.ErrorIs(t, <-sent, runtime.ErrAttachedElsewhere)
		received := second.Start().InputReceived
		require.Equal(t, int64(64<<10), received)
		go func() { sent <- second.Input(received, make([]byte, 1<<20)) }()
		synctest.Wait()
		require.NoError(t, rt.EndCommand(t.Context(), id, "unread", claimFence))
		require.NoError(t, <-sent)
	})
}
