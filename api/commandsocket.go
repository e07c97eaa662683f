package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/runtime"
)

// The channels of binary messages: their first byte.
const (
	channelStdin  = 0
	channelStdout = 1
	channelStderr = 2
)

// Limits of a WebSocket.
const (
	// maxSocketMessage bounds a message of a client.
	maxSocketMessage = 64<<10 + 1
	// maxSocketInput bounds the input that the container has not received. A client
	// knows how much that is.
	maxSocketInput = 256 << 10
	// maxSocketMessages bounds the messages with it.
	maxSocketMessages = 1 << 10
	// socketStartTimeout bounds how long a client may take to name its command.
	socketStartTimeout = 10 * time.Second
)

// SocketMessage is a text message of a client.
type SocketMessage struct {
	Type   string          `json:"type" enum:"start,resize,signal,close_stdin,ack"`
	Start  *CommandRequest `json:"start,omitempty" doc:"Of start."`
	Signal string          `json:"signal,omitempty" doc:"Of signal."`
	Offset int64           `json:"offset,omitempty" doc:"Of ack: the output before it will not be read again."`
	runtime.TerminalSize
}

// SocketEvent is a text message of the server.
type SocketEvent struct {
	Type   string         `json:"type" enum:"start,input,exit,error"`
	Start  *CommandStart  `json:"start,omitempty" doc:"Of start, the first message."`
	Offset int64          `json:"offset,omitempty" doc:"Of input: how much of it was passed on."`
	Result *CommandResult `json:"result,omitempty" doc:"Of exit, the last message."`
	Error  *Problem       `json:"error,omitempty" doc:"Of error, the last message."`
}

// acceptSocket accepts a request as a WebSocket. It answers one that is none.
func (a *API) acceptSocket(w http.ResponseWriter, r *http.Request) *websocket.Conn {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		a.o.Log.DebugContext(r.Context(), "WebSocket refused", "request", requestID(r.Context()), "error", err)
		return nil
	}
	conn.SetReadLimit(maxSocketMessage)
	return conn
}

// attachSocket serves a WebSocket of a command that was started before.
func (a *API) attachSocket(w http.ResponseWriter, r *http.Request) {
	after := int64(0)
	if text := r.URL.Query().Get("after"); text != "" {
		var err error
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 {
			newProblem(r.Context(), InvalidRequest, "query.after is not an offset").write(w)
			return
		}
	}
	if !hasUpgrade(r, "websocket") { // it would take the place of a reader
		a.acceptSocket(w, r)
		return
	}
	c, err := a.o.Access.Attach(r.Context(), r.PathValue("id"), r.PathValue("command"), after)
	if err != nil {
		a.problem(r.Context(), err).write(w)
		return
	}
	conn := a.acceptSocket(w, r)
	if conn == nil {
		_ = c.Close() // nothing was read of it
		return
	}
	a.serveSocket(r.Context(), conn, c)
}

// startSocket serves a WebSocket whose first message is the command to start.
func (a *API) startSocket(w http.ResponseWriter, r *http.Request) {
	conn := a.acceptSocket(w, r)
	if conn == nil {
		return
	}
	ctx := r.Context()
	first, cancel := context.WithTimeoutCause(ctx, socketStartTimeout, errSlowStart)
	defer cancel()
	m, err := readMessage(first, conn)
	if err == nil && (m.Type != "start" || m.Start == nil) {
		err = invalidf("the first message is not one of the type start")
	}
	var c *access.Command
	if err == nil {
		c, err = a.o.Access.Start(ctx, r.PathValue("id"), m.Start.request())
	}
	if err != nil {
		s := socket{a: a, conn: conn}
		_ = s.write(ctx, eventFrame(SocketEvent{Type: "error", Error: a.problem(ctx, a.commandError(ctx, err))}))
		_ = conn.Close(websocket.StatusPolicyViolation, "not started")
		return
	}
	a.serveSocket(ctx, conn, c)
}

var errSlowStart = fmt.Errorf("%w: no message of the type start arrived", errInvalid)

// readMessage reads a text message.
func readMessage(ctx context.Context, conn *websocket.Conn) (m SocketMessage, err error) {
	kind, text, err := conn.Read(ctx)
	if err != nil {
		return m, err
	}
	if kind != websocket.MessageText {
		return m, invalidf("the message is not text")
	}
	return parseMessage(text)
}

func parseMessage(text []byte) (m SocketMessage, err error) {
	if err := json.Unmarshal(text, &m); err != nil {
		return m, invalidf("the message is not JSON: %v", err)
	}
	return m, nil
}

// serveSocket serves a WebSocket until the command has ended, the client has left, or
// the server stops.
func (a *API) serveSocket(ctx context.Context, conn *websocket.Conn, c *access.Command) {
	ctx, cancel := context.WithCancel(ctx)
	s := &socket{a: a, conn: conn, input: make(chan []byte, maxSocketMessages)}
	var g errgroup.Group
	g.Go(func() error {
		defer cancel() // the client has left, or has sent what it may not
		defer close(s.input)
		return s.receive(ctx, c)
	})
	g.Go(func() error { return s.passInput(ctx, c) })
	err := a.followOutput(ctx, c, s)
	status := websocket.StatusNormalClosure
	if !s.exited {
		status = websocket.StatusGoingAway
	}
	if credentialEnd(ctx) != nil {
		status = websocket.StatusPolicyViolation
	}
	_ = conn.Close(status, "") // receive returns
	cancel()
	if err := errors.Join(err, g.Wait()); err != nil {
		a.o.Log.DebugContext(ctx, "WebSocket ended", "request", requestID(ctx), "error", err)
	}
}

// socket is a WebSocket of a command. It implements outputWriter.
type socket struct {
	a      *API
	conn   *websocket.Conn
	ready  []socketFrame // what flush writes
	ping   bool
	exited bool

	input   chan []byte  // what the client has sent; nil is the end of the input
	pending atomic.Int64 // bytes of it that were not passed on
}

type socketFrame struct {
	kind websocket.MessageType
	data []byte
}

func (s *socket) start(start *CommandStart) { s.event(SocketEvent{Type: "start", Start: start}) }

func (s *socket) heartbeat() { s.ping = true }

func (s *socket) event(e SocketEvent) { s.ready = append(s.ready, eventFrame(e)) }

func eventFrame(e SocketEvent) socketFrame {
	var b bytes.Buffer
	writeJSON(&b, e)
	return socketFrame{websocket.MessageText, b.Bytes()}
}

func (s *socket) piece(ctx context.Context, p piece) {
	switch {
	case p.err != nil:
		s.event(SocketEvent{Type: "error", Error: s.a.problem(ctx, p.err)})
	case p.result != nil:
		result := viewResult(*p.result)
		s.event(SocketEvent{Type: "exit", Result: &result})
		s.exited = true
	default:
		channel := byte(channelStdout)
		if p.Stderr {
			channel = channelStderr
		}
		s.ready = append(s.ready, socketFrame{websocket.MessageBinary, append([]byte{channel}, p.Data...)})
	}
}

func (s *socket) flush(ctx context.Context) error {
	for _, f := range s.ready {
		if err := s.write(ctx, f); err != nil {
			return err
		}
	}
	s.ready = s.ready[:0]
	if !s.ping {
		return nil
	}
	s.ping = false
	ctx, cancel := context.WithTimeout(ctx, s.a.o.WriteTimeout)
	defer cancel()
	if err := s.conn.Ping(ctx); err != nil {
		return fmt.Errorf("ping a WebSocket: %w", err)
	}
	return nil
}

// write writes a message. It may be called by several goroutines at once. It does not
// end with ctx, which would close the connection before the last message: that of a
// credential which has ended has a deadline of its own.
func (s *socket) write(ctx context.Context, f socketFrame) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.a.o.WriteTimeout)
	defer cancel()
	if err := s.conn.Write(ctx, f.kind, f.data); err != nil {
		return fmt.Errorf("write to a WebSocket: %w", err)
	}
	return nil
}

// errSocketInput is returned for input that the container has no room for, and for
// binary messages of no channel.
var errSocketInput = errors.New("more input than may wait, or not of channel 0")

// receive handles what the client sends. Nothing in it waits for the command, so that
// a command that does not read delays no acknowledgment. It returns when the
// connection is closed, or with what arrives after the end of the credential: a client
// need not answer the last message.
func (s *socket) receive(ctx context.Context, c *access.Command) error {
	reading := context.WithoutCancel(ctx) // with ctx it would close the connection before the last message
	for {
		kind, data, err := s.conn.Read(reading)
		if err == nil {
			err = credentialEnd(ctx)
		}
		if err != nil {
			return err
		}
		if kind == websocket.MessageText {
			m, err := parseMessage(data)
			if err == nil {
				err = s.handle(c, m)
			}
			// The output ends with this error, and its client has to learn of it.
			if err != nil && !errors.Is(err, runtime.ErrAttachedElsewhere) {
				return err
			}
			continue
		}
		if len(data) == 0 || data[0] != channelStdin {
			return errSocketInput
		}
		if len(data) > 1 && !s.queue(data[1:]) {
			return errSocketInput
		}
	}
}

// queue queues input, or its end. It returns false if there is no room.
func (s *socket) queue(data []byte) bool {
	if s.pending.Add(int64(len(data))) > maxSocketInput {
		return false
	}
	select {
	case s.input <- data:
		return true
	default:
		return false
	}
}

// handle handles a text message.
func (s *socket) handle(c *access.Command, m SocketMessage) error {
	switch m.Type {
	case "ack":
		return c.Acknowledge(m.Offset)
	case "signal":
		return c.SendSignal(m.Signal)
	case "resize":
		if err := access.ValidateTerminal(m.TerminalSize); err != nil {
			return err
		}
		return c.Resize(m.TerminalSize)
	case "close_stdin":
		if !s.queue(nil) {
			return errSocketInput
		}
		return nil
	}
	return invalidf("a message of the type %s", quote(m.Type))
}

// passInput passes input on, and reports how much to the client.
func (s *socket) passInput(ctx context.Context, c *access.Command) error {
	offset := c.Start().InputReceived
	for data := range s.input {
		if cause := credentialEnd(ctx); cause != nil {
			return cause
		}
		if data == nil {
			if err := c.CloseInput(); err != nil {
				return err
			}
			continue
		}
		if err := c.Input(offset, data); err != nil {
			return err
		}
		offset += int64(len(data))
		s.pending.Add(-int64(len(data)))
		if err := s.write(ctx, eventFrame(SocketEvent{Type: "input", Offset: offset})); err != nil {
			return err
		}
	}
	return nil
}
