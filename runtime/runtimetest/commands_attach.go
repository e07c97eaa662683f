package runtimetest

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
)

// held waits until a command is held back, and returns its status.
func (c *container) held(t *testing.T, id string) (found runtime.CommandStatus) {
	t.Helper()
	testenv.AwaitTrue(t, "it is held back", func() bool {
		found = c.status(t, id)
		return found.Held
	})
	return found
}

// status returns the status of a command.
func (c *container) status(t *testing.T, id string) runtime.CommandStatus {
	t.Helper()
	all, err := c.rt.Commands(t.Context(), c.id, commandFence)
	require.NoError(t, err, "Commands")
	for _, status := range all {
		if status.ID == id {
			return status
		}
	}
	require.FailNow(t, "the command is not listed", "%s in %v", id, all)
	return runtime.CommandStatus{}
}

// A command whose output is not acknowledged waits, and continues when it is.
func commandHeldBack(t *testing.T, c *container) {
	cmd := c.tenantCommand("count", "300000")
	s := c.open(t, cmd)
	r := &received{}
	for r.next < runtime.CommandBuffer {
		out, err := s.Next()
		require.NoError(t, err)
		require.Equal(t, r.next, out.Offset)
		r.next += int64(len(out.Data))
		r.all.Write(out.Data)
	}
	status := c.held(t, cmd.ID)
	require.Equal(t, int64(runtime.CommandBuffer), status.Output)
	require.Equal(t, r.next, status.Output, "nothing more was sent")
	require.Nil(t, status.Ended)
	require.Error(t, s.Acknowledge(r.next+1), "it was not received")
	require.NoError(t, s.Acknowledge(r.next))
	require.True(t, r.follow(t, s).OK())
	require.Equal(t, numbers(300000), r.all.String())
}

// What was not acknowledged can be read again, from any offset.
func commandAttachAgain(t *testing.T, c *container) {
	cmd := c.tenantCommand("count", "300000")
	s := c.open(t, cmd)
	r := &received{}
	r.receive(t, s, func() bool { return r.next > 100_000 })
	acknowledged := r.next
	for range 3 {
		_, err := s.Next()
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	_, err := s.Next()
	require.Error(t, err)
	require.Error(t, s.Acknowledge(acknowledged+1))
	require.NoError(t, s.Close(), "again")

	require.NoError(t, c.attach(t, cmd.ID, acknowledged).Close(), "that acknowledges what is before")
	_, err = c.rt.AttachCommand(t.Context(), c.id, cmd.ID, commandFence, acknowledged-1)
	require.ErrorIs(t, err, runtime.ErrOutputLost)
	_, err = c.rt.AttachCommand(t.Context(), c.id, cmd.ID, commandFence, 1<<40)
	require.ErrorIs(t, err, runtime.ErrOutputLost, "it has not written that much")
	cmd.After = acknowledged
	s = c.open(t, cmd)
	require.Equal(t, runtime.CommandStart{Offset: acknowledged, InputClosed: true}, s.Start(), "it runs already")
	require.True(t, r.follow(t, s).OK())
	require.Equal(t, numbers(300000), r.all.String())
}

// A later attachment takes the place of an earlier one.
func commandTakeOver(t *testing.T, c *container) {
	cmd := c.tenantCommand("cat")
	cmd.Input = true
	first := c.open(t, cmd)
	waiting := make(chan error, 1)
	go func() { // ends with the attachment
		_, err := first.Next()
		waiting <- err
	}()
	second := c.attach(t, cmd.ID, 0)
	require.ErrorIs(t, <-waiting, runtime.ErrAttachedElsewhere)
	_, err := first.Next()
	require.ErrorIs(t, err, runtime.ErrAttachedElsewhere)
	require.ErrorIs(t, first.Input(0, []byte("x")), runtime.ErrAttachedElsewhere)
	require.ErrorIs(t, first.Resize(runtime.TerminalSize{}), runtime.ErrAttachedElsewhere)
	require.NoError(t, second.Input(0, []byte("y")))
	require.NoError(t, second.CloseInput())
	r, result := follow(t, second)
	require.True(t, result.OK())
	require.Equal(t, "y", r.stdout.String())
}

// An attachment without output takes no other one's place, and none takes its.
func commandControl(t *testing.T, c *container) {
	cmd := c.tenantCommand("cat")
	cmd.Input = true
	reader := c.open(t, cmd)
	control, second := c.attach(t, cmd.ID, runtime.ControlOnly), c.attach(t, cmd.ID, runtime.ControlOnly)
	require.NoError(t, control.Input(0, []byte("one ")))
	r := &received{}
	r.receiveText(t, reader, "one ")
	require.NoError(t, second.Acknowledge(r.next))
	require.NoError(t, second.Close())
	_, err := c.rt.AttachCommand(t.Context(), c.id, cmd.ID, commandFence, 0)
	require.ErrorIs(t, err, runtime.ErrOutputLost, "it was acknowledged")
	require.NoError(t, control.Resize(runtime.TerminalSize{Rows: 1, Columns: 1}))
	require.NoError(t, control.Input(4, []byte("two")))
	require.NoError(t, control.CloseInput())
	require.True(t, r.follow(t, reader).OK())
	require.Equal(t, "one two", r.stdout.String())
	require.NoError(t, reader.Close())
	testenv.AwaitTrue(t, "it is forgotten: its reader has everything", func() bool {
		_, err := c.rt.AttachCommand(t.Context(), c.id, cmd.ID, commandFence, runtime.ControlOnly)
		return errors.Is(err, runtime.ErrUnknownRun)
	})

	hang := c.tenantCommand("hang")
	c.open(t, hang)
	control = c.attach(t, hang.ID, runtime.ControlOnly)
	require.NoError(t, control.Signal("SIGKILL"))
	require.NoError(t, control.Close(), "what was sent takes effect")
	_, result := follow(t, c.attach(t, hang.ID, 0))
	require.Equal(t, "SIGKILL", result.Signal)
	require.True(t, c.attach(t, hang.ID, runtime.ControlOnly).Start().InputClosed, "it has ended")
}

// Another server continues where an earlier one has lost its connections, without a
// byte missing or repeated.
func commandOfAnotherServer(t *testing.T, c *container) {
	if isUnsupported(t, c.Reopen == nil, "to outlive its server") {
		return
	}
	cmd := c.tenantCommand("cat")
	cmd.Input = true
	text := []byte(numbers(200000))
	r := &received{}
	server := c
	for sent := int64(0); r.next < int64(len(text)); {
		s := server.open(t, cmd)
		start := s.Start()
		require.Equal(t, r.next, start.Offset)
		require.GreaterOrEqual(t, start.InputReceived, r.next, "it was printed already")
		require.LessOrEqual(t, start.InputReceived, int64(len(text)))
		go func() { // ends with the attachment
			if s.Input(start.InputReceived, text[start.InputReceived:]) == nil {
				_ = s.CloseInput()
			}
		}()
		goal := sent + int64(len(text))/4
		r.receive(t, s, func() bool { return r.next >= goal })
		sent = r.next
		if closer, ok := server.rt.(io.Closer); ok && server.rt != c.rt {
			require.NoError(t, closer.Close(), "it loses its connections")
		}
		if r.next < int64(len(text)) {
			server = &container{suite: &suite{Harness: c.Harness, rt: c.Reopen(t)}, id: c.id, testprog: c.testprog}
			cmd.After = r.next
		}
	}
	require.True(t, string(text) == r.stdout.String(), "the same bytes in the same order")
}

// A command is forgotten when its client has everything and has closed the
// attachment, and not before.
func commandForgotten(t *testing.T, c *container) {
	cmd := c.tenantCommand("echo", "words")
	s := c.open(t, cmd)
	for {
		_, err := s.Next()
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
	}
	require.NoError(t, s.Close())
	status := c.status(t, cmd.ID)
	require.NotNil(t, status.Ended)
	require.True(t, status.Result.OK())
	require.Equal(t, int64(6), status.Output)

	s = c.attach(t, cmd.ID, 0)
	r, result := follow(t, s)
	require.Equal(t, "words\n", r.stdout.String(), "it was not acknowledged")
	require.True(t, result.OK())
	require.NoError(t, s.Close())
	testenv.AwaitTrue(t, "it is forgotten", func() bool {
		all, err := c.rt.Commands(t.Context(), c.id, commandFence)
		require.NoError(t, err)
		return len(all) == 0
	})
	_, err := c.rt.AttachCommand(t.Context(), c.id, cmd.ID, commandFence, 6)
	require.ErrorIs(t, err, runtime.ErrUnknownRun)
}
