package shim

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// commandProgram is the other end of a session, played by a test.
type commandProgram struct {
	*Session
	requests []Request
	conn     *Conn    // the last one
	features []string // of the program
	leaseErr error
	play     func(in *Incoming, stream *Stream)
}

// newCommandProgram returns a session with a program that plays each request.
func newCommandProgram(t *testing.T, play func(in *Incoming, stream *Stream)) *commandProgram {
	t.Helper()
	p := &commandProgram{features: features, play: play}
	p.Session = newSession("c", Options{
		Secret: secret, CheckRunning: alwaysRunning, UnresponsiveTimeout: time.Minute,
		MayChange: func() error { return p.leaseErr },
		Dial: func(context.Context, string) (io.ReadWriteCloser, int, error) {
			ours, theirs := net.Pipe()
			go func() { // ends with the connection
				channel, err := ProgramHandshake(theirs, DeriveKey(secret, "c"), HandshakeReply{BootID: "a", Main: MainRunning})
				if err == nil {
					p.conn = NewConn(theirs, channel, p.handle, nil)
					p.conn.Run()
				}
			}()
			return ours, Version, nil
		},
	})
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func (p *commandProgram) handle(in *Incoming) error {
	p.requests = append(p.requests, in.Request)
	var stream *Stream
	if in.Request.Streams > 0 {
		stream = in.Stream(CommandStream)
	}
	go p.play(in, stream) // ends with the connection
	return nil
}

// startsAt plays the start of a command.
func startsAt(s *Stream, offset int64) {
	_ = WriteJSONMessage(s, MessageStart, CommandStart{Offset: offset})
}

func sendOutput(s *Stream, offset int64, stderr bool, text string) {
	_ = WriteMessage(s, MessageOutput, OutputHeader(offset, stderr), []byte(text))
}

func sendResult(s *Stream, code int) {
	_ = WriteJSONMessage(s, MessageEnd, CommandEnd{Result: &runtime.Result{ExitCode: code, Stdout: runtime.Output{Head: "x", Total: 3}}})
}

// respondsError plays an error in place of a command.
func respondsError(code Code) func(in *Incoming, stream *Stream) {
	return func(in *Incoming, _ *Stream) { _ = in.Respond(Response{Error: &WireError{Code: code}}) }
}

var testCommand = runtime.TenantCommand{ID: "id", Args: []string{"x"}, Fence: 7}

// raw returns a message that WriteMessage refuses to send.
func raw(kind MessageKind, size int, body ...byte) []byte {
	return append([]byte{byte(kind), 0, byte(size >> 16), byte(size >> 8), byte(size)}, body...)
}

// What no program sends costs it the connection.
func TestCommandViolations(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(in *Incoming, s *Stream){
		"gap":                  func(_ *Incoming, s *Stream) { sendOutput(s, 1, false, "x") },
		"repeated output":      func(_ *Incoming, s *Stream) { sendOutput(s, 0, false, "x"); sendOutput(s, 0, false, "x") },
		"negative offset":      func(_ *Incoming, s *Stream) { sendOutput(s, -1, false, "x") },
		"another stream":       func(_ *Incoming, s *Stream) { _, _ = s.Write(raw(MessageOutput, 10, 0, 0, 0, 0, 0, 0, 0, 0, 2, 'x')) },
		"empty output":         func(_ *Incoming, s *Stream) { _, _ = s.Write(raw(MessageOutput, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0)) },
		"too much output":      func(_ *Incoming, s *Stream) { _, _ = s.Write(raw(MessageOutput, outputHeaderSize+MaxCommandData+1)) },
		"huge message":         func(_ *Incoming, s *Stream) { _, _ = s.Write([]byte{'o', 255, 255, 255, 255}) },
		"unknown message":      func(_ *Incoming, s *Stream) { _, _ = s.Write(raw('?', 0)) },
		"message of a server":  func(_ *Incoming, s *Stream) { _ = WriteMessage(s, MessageAcknowledge, OffsetBytes(0)) },
		"input":                func(_ *Incoming, s *Stream) { _ = WriteMessage(s, MessageInput, OffsetBytes(0), []byte("x")) },
		"another start":        func(_ *Incoming, s *Stream) { startsAt(s, 0) },
		"end without result":   func(_ *Incoming, s *Stream) { _ = WriteJSONMessage(s, MessageEnd, CommandEnd{}) },
		"end that is not JSON": func(_ *Incoming, s *Stream) { _, _ = s.Write(raw(MessageEnd, 1, '{')) },
		"end with both": func(_ *Incoming, s *Stream) {
			_ = WriteJSONMessage(s, MessageEnd, CommandEnd{&runtime.Result{}, &WireError{}})
		},
		"closed without an end":  func(_ *Incoming, s *Stream) { _ = s.CloseWrite() },
		"truncated message":      func(_ *Incoming, s *Stream) { _, _ = s.Write([]byte{'o', 0}); _ = s.CloseWrite() },
		"response without error": func(in *Incoming, _ *Stream) { _ = in.Respond(Response{}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newCommandProgram(t, func(in *Incoming, s *Stream) { startsAt(s, 0); play(in, s) })
				stream, err := p.OpenCommand(t.Context(), testCommand)
				require.NoError(t, err)
				for err == nil {
					_, err = stream.Next()
				}
				require.ErrorIs(t, err, runtime.ErrUnavailable)
				require.NotErrorIs(t, err, io.EOF)
				require.ErrorIs(t, stream.(*commandStream).conn.Err(), ErrProtocol)
				_, again := stream.Next()
				require.Equal(t, err, again)
				_, err = stream.Result()
				require.Error(t, err)
				_ = p.Close()
			})
		})
	}
}

// A command is requested again, as the same one, when the answer is lost or is none.
func TestOpenCommandAgain(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(in *Incoming, s *Stream){
		"lost":         func(in *Incoming, _ *Stream) { _ = in.conn.Close() },
		"output first": func(_ *Incoming, s *Stream) { sendOutput(s, 5, false, "x") },
		"wrong offset": func(_ *Incoming, s *Stream) { startsAt(s, 4) },
		"negative input": func(_ *Incoming, s *Stream) {
			_ = WriteJSONMessage(s, MessageStart, CommandStart{Offset: 5, InputReceived: -1})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			first := true
			p := newCommandProgram(t, nil)
			p.play = func(in *Incoming, s *Stream) {
				if first {
					first = false
					play(in, s)
					return
				}
				startsAt(s, 5)
				sendOutput(s, 5, true, "abc")
				sendResult(s, 3)
			}
			cmd := testCommand
			cmd.After = 5
			stream, err := p.OpenCommand(t.Context(), cmd)
			require.NoError(t, err, name)
			require.Len(t, p.requests, 2)
			require.NotEmpty(t, p.requests[0].Command.Nonce)
			require.Equal(t, p.requests[0].Command.Nonce, p.requests[1].Command.Nonce)
			require.Equal(t, CommandWindow, p.requests[1].Window)
			out, err := stream.Next()
			require.NoError(t, err)
			require.Equal(t, runtime.CommandOutput{Offset: 5, Stderr: true, Data: []byte("abc")}, out)
			_, err = stream.Next()
			require.ErrorIs(t, err, io.EOF)
			result, err := stream.Result()
			require.NoError(t, err)
			require.Equal(t, runtime.Result{ExitCode: 3, Stdout: runtime.Output{Total: 3}}, result, "without output")
			_ = p.Close()
		})
	}
}

// The errors of the program are those of the contract.
func TestCommandErrors(t *testing.T) {
	t.Parallel()
	for code, want := range map[Code]error{
		CodeTooManyCommands: runtime.ErrTooManyCommands, CodeOutputLost: runtime.ErrOutputLost, CodeUnknownRun: runtime.ErrUnknownRun,
		CodeStale: runtime.ErrStaleFence, CodeNotRunning: runtime.ErrNotRunning, CodeAttachedElsewhere: runtime.ErrAttachedElsewhere,
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newCommandProgram(t, respondsError(code))
			_, err := p.OpenCommand(t.Context(), testCommand)
			require.ErrorIs(t, err, want)
			_, err = p.AttachCommand(t.Context(), "id", 7, 0)
			require.ErrorIs(t, err, want)
			require.ErrorIs(t, p.EndCommand(t.Context(), "id", 7), want)
			require.ErrorIs(t, p.EndCommands(t.Context(), 7, time.Second), want)
			_ = p.Close()
		})
	}
}

// An attachment that was answered takes nothing more, while its streams have not all
// ended.
func TestAnsweredAttachment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newCommandProgram(t, func(_ *Incoming, s *Stream) { startsAt(s, 0) })
		stream, err := p.OpenCommand(t.Context(), testCommand)
		require.NoError(t, err)
		a := stream.(*commandStream)
		require.NoError(t, a.Input(0, []byte("x")))
		a.out.events <- event{response: &Response{Error: &WireError{Code: CodeAttachedElsewhere}}}
		require.ErrorIs(t, a.Input(1, []byte("x")), runtime.ErrAttachedElsewhere)
		require.ErrorIs(t, a.CloseInput(), runtime.ErrAttachedElsewhere)
		require.ErrorIs(t, a.Resize(runtime.TerminalSize{}), runtime.ErrAttachedElsewhere)
		_ = p.Close()
	})
}

// A program that does not answer is unresponsive, one that prints nothing is not.
func TestSilentCommandProgram(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newCommandProgram(t, func(*Incoming, *Stream) {})
		_, err := p.OpenCommand(t.Context(), testCommand)
		require.ErrorIs(t, err, runtime.ErrTainted)
		_ = p.Close()
	})
	synctest.Test(t, func(t *testing.T) {
		p := newCommandProgram(t, func(_ *Incoming, s *Stream) {
			startsAt(s, 0)
			<-time.After(time.Hour)
			sendResult(s, 0)
		})
		stream, err := p.OpenCommand(t.Context(), testCommand)
		require.NoError(t, err)
		_, err = stream.Next()
		require.ErrorIs(t, err, io.EOF)
		// It reads nothing that is sent to it, beyond the window.
		for err = nil; err == nil || errors.Is(err, io.EOF); {
			err = stream.Signal("SIGINT")
		}
		require.ErrorIs(t, err, runtime.ErrTainted)
		_ = p.Close()
	})
}

// What no program accepts is not sent.
func TestInvalidTenantCommandIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newCommandProgram(t, nil)
		for name, change := range map[string]func(cmd *runtime.TenantCommand){
			"ID": func(cmd *runtime.TenantCommand) { cmd.ID = "a/b" }, "no ID": func(cmd *runtime.TenantCommand) { cmd.ID = "" },
			"offset": func(cmd *runtime.TenantCommand) { cmd.After = -1 }, "fence": func(cmd *runtime.TenantCommand) { cmd.Fence = 0 },
			"arguments": func(cmd *runtime.TenantCommand) { cmd.Args = nil }, "NUL": func(cmd *runtime.TenantCommand) { cmd.Args = []string{"a\x00"} },
			"variable": func(cmd *runtime.TenantCommand) { cmd.Environment = map[string]string{"a=b": "c"} },
			"size":     func(cmd *runtime.TenantCommand) { cmd.Args = []string{"a", strings.Repeat("x", MaxFrame)} },
		} {
			cmd := testCommand
			change(&cmd)
			_, err := p.OpenCommand(t.Context(), cmd)
			start, ok := errors.AsType[*runtime.StartError](err)
			require.True(t, ok, "%s: %v", name, err)
			require.Equal(t, runtime.StartBadInput, start.Reason, name)
		}
		_, err := p.AttachCommand(t.Context(), "a/b", 7, 0)
		require.ErrorIs(t, err, runtime.ErrUnknownRun)
		_, err = p.AttachCommand(t.Context(), "id", 7, -2)
		require.ErrorIs(t, err, runtime.ErrUnknownRun)
		require.ErrorIs(t, p.EndCommands(t.Context(), NoFence, 0), runtime.ErrStaleFence)
		require.Empty(t, p.requests)
		_ = p.Close()
	})
}

// The call ends with its context, the attachment does not.
func TestOpenCommandContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newCommandProgram(t, func(*Incoming, *Stream) {})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.OpenCommand(ctx, testCommand)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		p.play = func(_ *Incoming, s *Stream) { startsAt(s, 0); <-time.After(time.Minute); sendResult(s, 0) }
		ctx, cancel = context.WithCancel(t.Context())
		stream, err := p.OpenCommand(ctx, testCommand)
		require.NoError(t, err)
		cancel()
		_, err = stream.Next()
		require.ErrorIs(t, err, io.EOF)
		_ = p.Close()
	})
}

// A server without its lease changes no command, also by an attachment.
func TestCommandLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newCommandProgram(t, func(_ *Incoming, s *Stream) { startsAt(s, 0); sendOutput(s, 0, false, "x") })
		stream, err := p.OpenCommand(t.Context(), testCommand)
		require.NoError(t, err)
		_, err = stream.Next()
		require.NoError(t, err)
		p.leaseErr = runtime.ErrUnavailable
		for name, call := range map[string]func() error{
			"Acknowledge": func() error { return stream.Acknowledge(1) },
			"Input":       func() error { return stream.Input(0, []byte("x")) },
			"CloseInput":  stream.CloseInput,
			"Resize":      func() error { return stream.Resize(runtime.TerminalSize{}) },
			"Signal":      func() error { return stream.Signal("SIGINT") },
			"EndCommand":  func() error { return p.EndCommand(t.Context(), "id", 7) },
			"EndCommands": func() error { return p.EndCommands(t.Context(), 7, 0) },
			"OpenCommand": func() error { _, err := p.OpenCommand(t.Context(), testCommand); return err },
			"AttachCommand": func() error {
				_, err := p.AttachCommand(t.Context(), "id", 7, 0)
				return err
			},
		} {
			require.ErrorIs(t, call(), runtime.ErrUnavailable, name)
		}
		require.Len(t, p.requests, 1)
		_ = p.Close()
	})
}

// A container of an older server has no commands, and so none to end.
func TestCommandsUnsupported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newCommandProgram(t, nil)
		c, err := p.connect(t.Context())
		require.NoError(t, err)
		c.features = nil
		_, err = p.OpenCommand(t.Context(), testCommand)
		require.ErrorIs(t, err, runtime.ErrUnsupported)
		_, err = p.AttachCommand(t.Context(), "id", 7, 0)
		require.ErrorIs(t, err, runtime.ErrUnsupported)
		_, err = p.Commands(t.Context(), 7)
		require.ErrorIs(t, err, runtime.ErrUnsupported)
		require.ErrorIs(t, p.EndCommand(t.Context(), "id", 7), runtime.ErrUnsupported)
		require.NoError(t, p.EndCommands(t.Context(), 7, time.Second))
		_ = p.Close()
	})
}

// What is listed is checked: it comes from the container.
func TestCommandsListed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		listed []runtime.CommandStatus
		ok     bool
	}{
		"none": {nil, true}, "one": {[]runtime.CommandStatus{{ID: "a"}}, true},
		"ended":    {[]runtime.CommandStatus{{ID: "a", Result: &runtime.Result{Stderr: runtime.Output{Total: 3}}}}, true},
		"bad ID":   {[]runtime.CommandStatus{{ID: "a/b"}}, false},
		"too many": {make([]runtime.CommandStatus, maxListedCommands+1), false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newCommandProgram(t, func(in *Incoming, _ *Stream) { _ = in.Respond(Response{Commands: c.listed}) })
			got, err := p.Commands(t.Context(), 7)
			if c.ok {
				require.NoError(t, err, name)
				require.Equal(t, c.listed, got)
			} else {
				require.ErrorIs(t, err, runtime.ErrTainted, name)
			}
			_ = p.Close()
		})
	}
}

// The end of a command that takes long is asked for again.
func TestEndCommandAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		busy := 3
		p := newCommandProgram(t, func(in *Incoming, _ *Stream) {
			<-time.After(EndWait)
			if busy--; busy > 0 {
				respondsError(CodeBusy)(in, nil)
				return
			}
			_ = in.Respond(Response{})
		})
		require.NoError(t, p.EndCommand(t.Context(), "id", 7))
		require.Len(t, p.requests, 3)
		_ = p.Close()
	})
}
