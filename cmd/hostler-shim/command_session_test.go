package main

import (
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// commandClient is a server that sends what it wants to the init of a container.
type commandClient struct {
	t    *testing.T
	conn *shim.Conn
}

// newCommandClient starts init, and returns a session and a client of its own.
func newCommandClient(t *testing.T) (*shim.Session, *commandClient) {
	t.Helper()
	dir := t.TempDir()
	session, _ := startInitIn(t, dir, "")
	socket, err := net.Dial("unix", dir+"/sock")
	require.NoError(t, err)
	channel, _, err := shim.ServerHandshake(socket, shim.DeriveKey([]byte("secret"), "c"), shim.Version)
	require.NoError(t, err)
	c := &commandClient{t, shim.NewConn(socket, channel, nil, nil)}
	go c.conn.Run() // ends with the connection
	t.Cleanup(func() { require.NoError(t, c.conn.Close()) })
	return session, c
}

// attached is an attachment of a client.
type attached struct {
	t   *testing.T
	out shim.Outgoing
	*shim.Stream
	reader *shim.MessageReader
}

// attach sends a request for the command "id".
func (c *commandClient) attach(after int64, run *shim.Run) *attached {
	c.t.Helper()
	out, err := c.conn.Call(shim.Request{
		Op: shim.OpCommand, RunID: "id", Fence: 7, Run: run, Streams: 2, Window: shim.CommandWindow,
		Command: &shim.CommandRequest{Nonce: "n", After: after, Input: true},
	})
	require.NoError(c.t, err)
	s := out.Stream(shim.CommandStream)
	return &attached{c.t, out, s, shim.NewMessageReader(s, shim.MessageStart, shim.MessageOutput, shim.MessageEnd)}
}

// next returns the kind and the body of the next message.
func (a *attached) next() (shim.MessageKind, string) {
	a.t.Helper()
	kind, body, err := a.reader.Next()
	require.NoError(a.t, err)
	return kind, string(body)
}

// requireStart asserts that the first message is the state of the command.
func (a *attached) requireStart(want shim.CommandStart) {
	a.t.Helper()
	kind, body := a.next()
	require.Equal(a.t, shim.MessageStart, kind)
	var got shim.CommandStart
	require.NoError(a.t, json.Unmarshal([]byte(body), &got))
	require.Equal(a.t, want, got)
}

// requireEnded asserts that the attachment ends without a further message.
func (a *attached) requireEnded() {
	a.t.Helper()
	_, _, err := a.reader.Next()
	require.Error(a.t, err)
	require.NotErrorIs(a.t, err, io.EOF)
}

// acknowledge acknowledges output before an offset.
func (a *attached) acknowledge(offset int64) {
	a.t.Helper()
	require.NoError(a.t, shim.WriteMessage(a, shim.MessageAcknowledge, shim.OffsetBytes(offset)))
}

func shell(script string) *shim.Run {
	return &shim.Run{Args: []string{"sh", "-c", script}, Grace: time.Second}
}

// What was not sent cannot be acknowledged, and what was acknowledged is not sent
// again.
func TestAcknowledge(t *testing.T) {
	t.Parallel()
	session, c := newCommandClient(t)
	a := c.attach(0, shell("echo words; exec sleep 60"))
	a.requireStart(shim.CommandStart{Created: true})
	kind, body := a.next()
	require.Equal(t, shim.MessageOutput, kind)
	require.True(t, strings.HasSuffix(body, "\x00words\n"))
	a.acknowledge(7)
	a.requireEnded()

	a = c.attach(0, nil)
	a.requireStart(shim.CommandStart{Created: true})
	require.Equal(t, body, second(a.next()))
	a.acknowledge(2)
	a = c.attach(2, nil)
	a.requireStart(shim.CommandStart{Offset: 2, Created: true})
	require.True(t, strings.HasSuffix(second(a.next()), "\x00rds\n"))
	for _, offset := range []int64{1, 7} {
		c.attach(offset, nil).requireEnded()
	}
	a.acknowledge(6)
	require.NoError(t, session.EndCommand(t.Context(), "id", 7))
	kind, _ = a.next()
	require.Equal(t, shim.MessageEnd, kind)
}

func second(_ shim.MessageKind, body string) string { return body }

// A gap in the input ends the attachment. So does a message that no server sends.
func TestInvalidMessagesToCommand(t *testing.T) {
	t.Parallel()
	_, c := newCommandClient(t)
	run := shell("exec cat")
	for name, send := range map[string]func(a *attached) error{
		"gap": func(a *attached) error {
			return shim.WriteMessage(a.out.Stream(shim.CommandInputStream), shim.MessageInput, shim.OffsetBytes(1), []byte("x"))
		},
		"input among the messages": func(a *attached) error {
			return shim.WriteMessage(a, shim.MessageInput, shim.OffsetBytes(0), []byte("x"))
		},
		"message of a program": func(a *attached) error { return shim.WriteMessage(a, shim.MessageEnd) },
		"message among the input": func(a *attached) error {
			return shim.WriteMessage(a.out.Stream(shim.CommandInputStream), shim.MessageSignal, []byte{9})
		},
		"unknown message":   func(a *attached) error { _, err := a.Write([]byte("?\x00\x00\x00\x00")); return err },
		"truncated message": func(a *attached) error { _, err := a.Write([]byte("a\x00")); _ = a.CloseWrite(); return err },
	} {
		a := c.attach(0, run)
		a.requireStart(shim.CommandStart{Created: true})
		require.NoError(t, send(a), name)
		a.requireEnded()
	}
	a := c.attach(0, nil)
	a.requireStart(shim.CommandStart{Created: true})
	require.NoError(t, shim.WriteMessage(a.out.Stream(shim.CommandInputStream), shim.MessageInput, shim.OffsetBytes(0), []byte("y")))
	require.True(t, strings.HasSuffix(second(a.next()), "\x00y"), "the command is as before")
	require.NoError(t, c.conn.Err())
}

// A client that has everything but has not closed the attachment may come back.
func TestCommandIsKeptUntilClosed(t *testing.T) {
	t.Parallel()
	session, c := newCommandClient(t)
	first := c.attach(0, shell("exit 3"))
	_, _ = first.next()
	kind, body := first.next()
	require.Equal(t, shim.MessageEnd, kind)
	require.Contains(t, body, `"ExitCode":3`)
	first.out.Abandon()
	testenv.AwaitTrue(t, "the end of the attachment", func() bool {
		all, err := session.Commands(t.Context(), 7)
		require.NoError(t, err)
		require.Len(t, all, 1, "its client may attach again")
		return !all[0].Attached
	})
	a := c.attach(0, nil)
	_, _ = a.next()
	_, _ = a.next()
	require.NoError(t, a.CloseWrite())
	a.requireEnded()
	testenv.AwaitTrue(t, "the command to be forgotten", func() bool {
		all, err := session.Commands(t.Context(), 7)
		require.NoError(t, err)
		return len(all) == 0
	})
}

// A lost worker is reported until every process was killed, unless that has killed
// it.
func TestUncertainCommands(t *testing.T) {
	t.Parallel()
	s := newCommands()
	c, _, err := s.open(openRequest("a", 5))
	require.NoError(t, err)
	s.setUncertain(c, runtime.ErrNotRunning)
	require.NoError(t, s.uncertain())
	s.setUncertain(c, runtime.ErrTainted)
	require.ErrorIs(t, s.uncertain(), runtime.ErrTainted)
	s.markLost()
	s.reopen(nil)
	require.NoError(t, s.uncertain())
	s.setUncertain(c, runtime.ErrTainted)
	require.NoError(t, s.uncertain(), "it was killed")
	s.reset()
	_, err = s.get(5, "a")
	require.ErrorIs(t, err, runtime.ErrUnknownRun, "of an earlier tenant")
	require.Empty(t, s.list(5))
}

// Each kind of commands has its own limit.
func TestCommandLimits(t *testing.T) {
	t.Parallel()
	s := newCommands()
	for _, k := range []struct {
		internal bool
		limit    int
	}{{false, runtime.MaxTenantCommands}, {true, runtime.MaxInternalCommands}} {
		var first *tenantCommand
		for i := range k.limit + 1 {
			r := openRequest(strings.Repeat("x", i+1), 5)
			r.Command.Internal = k.internal
			if k.internal {
				r.RunID = "internal-" + r.RunID
			}
			c, _, err := s.open(r)
			if i == k.limit {
				require.ErrorIs(t, err, runtime.ErrTooManyCommands)
				first.end(runtime.Result{}, nil)
				_, _, err = s.open(r)
			}
			require.NoError(t, err)
			if i == 0 {
				first = c
			}
		}
	}
	require.Len(t, s.list(5), runtime.MaxTenantCommands+1, "without those of Hostler itself")
	require.Empty(t, s.list(6))
}
