package main

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// newCommands returns commands whose claim has the fence 5.
func newCommands() *commands {
	s := newSupervisor(shim.Config{HostProcess: true})
	s.admitted.Store(5)
	return s.commands
}

func openRequest(id string, fence int64) shim.Request {
	return shim.Request{
		Op: shim.OpCommand, RunID: id, Fence: fence, Run: &shim.Run{Args: []string{"x"}}, Command: &shim.CommandRequest{Nonce: "n"},
	}
}

// openEnded opens a command that has ended with as many bytes of output.
func openEnded(t *testing.T, s *commands, id string, size int) *tenantCommand {
	t.Helper()
	c, created, err := s.open(openRequest(id, 5))
	require.NoError(t, err)
	require.True(t, created)
	c.output.add(make([]byte, size), false)
	c.setReady(nil)
	c.end(runtime.Result{}, nil)
	s.keep(c)
	return c
}

// A command has one ID within its claim, and none begins with a smaller fence.
func TestOpenCommand(t *testing.T) {
	t.Parallel()
	s := newCommands()
	first, created, err := s.open(openRequest("a", 5))
	require.NoError(t, err)
	require.True(t, created)
	again, created, err := s.open(openRequest("a", 5))
	require.NoError(t, err)
	require.False(t, created)
	require.Same(t, first, again)
	_, _, err = s.open(openRequest("b", 4))
	require.ErrorIs(t, err, runtime.ErrStaleFence)
	r := openRequest("b", 5)
	r.Run = nil
	_, _, err = s.open(r)
	require.ErrorIs(t, err, runtime.ErrUnknownRun, "there is nothing to attach to")
	r = openRequest("b", 5)
	r.Command.After = 1
	_, _, err = s.open(r)
	require.ErrorIs(t, err, runtime.ErrUnknownRun, "its output is lost with it")

	_, err = s.endAll(6, time.Second)
	require.NoError(t, err)
	_, _, err = s.open(openRequest("c", 5))
	require.ErrorIs(t, err, runtime.ErrStaleFence)
	other, created, err := s.open(openRequest("a", 6))
	require.NoError(t, err)
	require.True(t, created, "one of another claim is another one")
	require.NotSame(t, first, other)
	require.Equal(t, []*tenantCommand{first, other}, s.markLost())
	_, _, err = s.open(openRequest("d", 6))
	require.ErrorIs(t, err, runtime.ErrNotRunning, "until every process was killed")
	s.reopen(nil)
	_, created, err = s.open(openRequest("d", 6))
	require.NoError(t, err)
	require.True(t, created)
}

// A command that has ended is kept for some time, and longer while something is
// attached to it.
func TestEndedCommandIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newCommands()
		openEnded(t, s, "a", 1)
		b := openEnded(t, s, "b", 1)
		attached := &attachment{command: b}
		b.attached = attached
		<-time.After(runtime.EndedCommandTTL - time.Second)
		require.Equal(t, []string{"a", "b"}, keptIDs(s))
		<-time.After(2 * time.Second)
		require.Equal(t, []string{"b"}, keptIDs(s))
		detached, forget := attached.detach(errSessionLost)
		require.True(t, detached)
		require.False(t, forget, "its client may attach again")
		s.keep(b)
		<-time.After(runtime.EndedCommandTTL - time.Second)
		require.Equal(t, []string{"b"}, keptIDs(s))
		<-time.After(2 * time.Second)
		require.Empty(t, keptIDs(s))
	})
}

// keptIDs returns the IDs of the commands that are known.
func keptIDs(s *commands) (ids []string) {
	for _, status := range s.list(5) {
		ids = append(ids, status.ID)
	}
	return ids
}

// The oldest commands that have ended are forgotten beyond a number, and lose their
// output beyond a size, before those with a client do.
func TestEndedCommandsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newCommands()
		for i := range maxEndedCommands + 3 {
			openEnded(t, s, fmt.Sprint("a", i), 0)
		}
		require.Len(t, s.all, maxEndedCommands)
		require.Equal(t, "a3", s.all[0].key.id)

		s = newCommands()
		const perCommand = runtime.CommandBuffer
		first := openEnded(t, s, "first", perCommand)
		first.attached = &attachment{command: first}
		for i := range maxEndedOutput / perCommand {
			openEnded(t, s, fmt.Sprint("b", i), perCommand)
		}
		require.Equal(t, perCommand, first.output.size(), "it has a client")
		require.Zero(t, s.all[1].output.size())
		require.NotNil(t, s.all[1].ended, "how it ended is kept")
		require.Equal(t, perCommand, s.all[2].output.size())
	})
}

// The arguments in a list are cut where they are too long.
func TestListedArgs(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"sh", "-c", "x"}, listedArgs([]string{"sh", "-c", "x"}))
	long := string(make([]byte, 2*maxListedArgs))
	for _, args := range [][]string{{"sh", long}, {long, "x"}, {long[:maxListedArgs-3], long}} {
		size := 0
		listed := listedArgs(args)
		for _, arg := range listed {
			size += len(arg)
		}
		require.LessOrEqual(t, size, maxListedArgs+len("…"))
		require.Contains(t, listed[len(listed)-1], "…")
	}
}

// Input continues where it was received, whatever is sent again.
func TestAddInput(t *testing.T) {
	t.Parallel()
	c := newCommand(commandKey{5, "a"}, &shim.CommandRequest{Input: true}, []string{"x"})
	a := &attachment{command: c}
	for _, step := range []struct {
		offset int64
		text   string
		want   string
	}{{0, "abc", "abc"}, {1, "bc", "abc"}, {2, "cde", "abcde"}, {5, "f", "abcdef"}} {
		ok, err := c.addInput(a, step.offset, []byte(step.text))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, step.want, string(c.pending))
	}
	_, err := c.addInput(a, 7, []byte("x"))
	require.ErrorIs(t, err, shim.ErrProtocol, "a gap")
	ok, err := c.addInput(a, 6, make([]byte, maxPendingInput-6))
	require.True(t, ok && err == nil)
	waits := make(chan bool, 1)
	go func() { // ends with the attachment
		ok, _ := c.addInput(a, maxPendingInput, []byte("x"))
		waits <- ok
	}()
	a.detach(errSessionLost)
	require.False(t, <-waits)
	require.EqualValues(t, maxPendingInput, c.inputReceived, "nothing of it")
}
