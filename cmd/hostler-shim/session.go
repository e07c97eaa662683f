package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
	"golang.org/x/sys/unix"
)

// handshakeTimeout is how long a new connection may take to authenticate.
const handshakeTimeout = 10 * time.Second

// session is one connection to init.
type session struct {
	supervisor *supervisor
	socket     *os.File
	conn       *shim.Conn // set after the handshake
	peer       proctree.ID
	isInside   bool // the peer is a process of the container
}

func newSession(s *supervisor, fd int) *session {
	c := &session{supervisor: s, socket: os.NewFile(uintptr(fd), "session")}
	if peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
		c.peer, c.isInside = peerProcess(int(peer.Pid))
	}
	return c
}

// peerProcess identifies the process that has connected and reports whether it
// belongs to the container: its parent is in the container as well, or it has
// exited since. The engine's bridge has its parent outside, which no process of
// a tenant can achieve. pid is 0 if the kernel does not report it.
func peerProcess(pid int) (id proctree.ID, inside bool) {
	if pid <= 0 {
		return proctree.ID{}, false
	}
	p, err := proctree.Read(pid)
	if err != nil {
		return proctree.ID{}, true
	}
	return p.ID, p.Parent != 0
}

// serve serves one client. It calls authenticated after the handshake, whether
// it has succeeded or not.
func (c *session) serve(authenticated func()) {
	defer c.socket.Close()
	_ = c.socket.SetReadDeadline(time.Now().Add(handshakeTimeout))
	err := c.handshake()
	_ = c.socket.SetReadDeadline(time.Time{})
	authenticated()
	if err != nil {
		return
	}
	c.supervisor.sessions.add(c, c.peer)
	defer c.supervisor.sessions.remove(c)
	c.conn.Run()
}

// handshake opens the connection to a client that holds the container's key. It
// fails if the main process could not be started, once the client has that error.
func (c *session) handshake() error {
	reply := shim.HandshakeReply{BootID: c.supervisor.bootID, Main: c.supervisor.main.get(), Error: c.supervisor.main.startError()}
	channel, err := shim.ProgramHandshake(c.socket, c.supervisor.config.Key, reply)
	if err != nil {
		return err
	}
	if reply.Error != nil { // there is nothing else to request
		time.AfterFunc(startErrorLinger, c.supervisor.exitStartFailed)
		return reply.Error.Err()
	}
	c.conn = shim.NewConn(c.socket, channel, c.handle, nil)
	return nil
}

// errInvalidRequest is the error for a request that no server of ours sends.
var errInvalidRequest = fmt.Errorf("%w: invalid request", shim.ErrProtocol)

// handle starts one request.
func (c *session) handle(in *shim.Incoming) error {
	r := in.Request
	if in.OneWay() {
		if r.Op != shim.OpCancel {
			return errInvalidRequest
		}
		c.supervisor.runs.cancel(r.RunID)
		return nil
	}
	if _, ok := changeOps[r.Op]; ok {
		go c.handleChange(in) // ends with the change, which has a timeout
		return nil
	}
	handler, ok := requestHandlers[r.Op]
	if !ok {
		return errInvalidRequest
	}
	return handler(c, in)
}

// requestHandlers are the handlers of requests that do not change the container
// as a whole.
var requestHandlers = map[shim.Op]func(c *session, in *shim.Incoming) error{
	shim.OpRun:         (*session).handleRun,
	shim.OpServe:       (*session).handleServe, // from RequestsVersion on
	shim.OpTar:         (*session).handleTransfer,
	shim.OpUntar:       (*session).handleTransfer,
	shim.OpScan:        (*session).handleTransfer,
	shim.OpWrite:       (*session).handleTransfer,
	shim.OpDial:        (*session).handleDial,
	shim.OpClosePorts:  (*session).handleClosePorts,
	shim.OpCommand:     (*session).handleCommand,
	shim.OpCommands:    (*session).handleCommands,
	shim.OpEndCommand:  (*session).handleEndCommand,
	shim.OpEndCommands: (*session).handleEndCommands,
	// These goroutines end with what they wait for, or with the session.
	shim.OpWaitResult:   func(c *session, in *shim.Incoming) error { go c.handleWaitResult(in); return nil },
	shim.OpOutput:       func(c *session, in *shim.Incoming) error { go c.handleOutput(in); return nil },
	shim.OpHalt:         func(c *session, in *shim.Incoming) error { go c.handleHalt(in); return nil },
	shim.OpLastModified: func(c *session, in *shim.Incoming) error { go c.handleLastModified(in); return nil },
}

// respond ends a request. If the response is lost, the client sends the request
// again.
func respond(in *shim.Incoming, a shim.Response, err error) {
	if err != nil {
		a.Error = shim.NewWireError(err)
	}
	_ = in.Respond(a)
}

// handleChange changes the container as a whole. The response is sent before
// the session is closed, if the change closes it.
func (c *session) handleChange(in *shim.Incoming) {
	respond(in, shim.Response{}, c.supervisor.applyChange(in.Request))
	c.supervisor.sessions.closeEnded()
}

// handleRun starts a command, unless its run ID is known, and sends its
// outcome.
func (c *session) handleRun(in *shim.Incoming) error {
	spec := in.Request.Run
	if spec == nil || spec.RunID == "" || len(spec.Args) == 0 || spec.Timeout <= 0 {
		return errInvalidRequest
	}
	// A stale request for a new command leaves no record: the same command of a
	// later flow runs.
	err := c.supervisor.admit(in.Request.Fence)
	if err != nil && c.supervisor.runs.get(spec.RunID) == nil {
		go respond(in, shim.Response{}, err) // ends with the write, which has a timeout
		return nil
	}
	// The command outlives the session that requests it.
	ctx, cancel := context.WithCancel(context.Background())
	known, created := c.supervisor.runs.getOrCreate(spec.RunID, cancel)
	c.serveCommand(in.Request, known)
	if created {
		go c.supervisor.execute(ctx, known, *spec, in.Request.Fence) // ends with the command
	} else {
		cancel()
	}
	go c.followRun(in, known) // ends with the command or the session
	return nil
}

// serveCommand records that the server at the other end serves the requests of the
// processes of a command, if the request for the command announces that and its
// fence is the greatest that this container has.
func (c *session) serveCommand(r shim.Request, known *run) {
	if r.Requests && r.Fence > shim.NoFence && c.supervisor.admit(r.Fence) == nil {
		c.supervisor.asks.serveCommand(known, c.conn, r.Fence)
	}
}

// handleWaitResult sends the outcome of a run that another request has started.
func (c *session) handleWaitResult(in *shim.Incoming) {
	if known := c.supervisor.runs.get(in.Request.RunID); known != nil {
		c.serveCommand(in.Request, known)
		c.followRun(in, known)
		return
	}
	_ = in.Respond(shim.Response{Error: &shim.WireError{Code: shim.CodeUnknownRun, Detail: in.Request.RunID}})
}

// handleOutput sends what a run has printed so far.
func (c *session) handleOutput(in *shim.Incoming) {
	known := c.supervisor.runs.get(in.Request.RunID)
	if known == nil {
		_ = in.Respond(shim.Response{Error: &shim.WireError{Code: shim.CodeUnknownRun, Detail: in.Request.RunID}})
		return
	}
	result, err := c.supervisor.printed(known, outputTimeout)
	respond(in, shim.Response{Result: &result}, err)
}

// handleHalt stops the main process and responds when it has exited. If a signal came
// before, init ends then.
func (c *session) handleHalt(in *shim.Incoming) {
	held := c.supervisor.halt.ask()
	c.supervisor.stopMain(true)
	select {
	case <-c.supervisor.halt.stopped:
		respond(in, shim.Response{}, nil)
		if held {
			c.supervisor.stopMain(false)
		}
	case <-in.Closed():
	}
}

// followRun sends the progress and the outcome of a run.
func (c *session) followRun(in *shim.Incoming, r *run) {
	queued, started := r.queued, (chan struct{})(nil)
	for {
		select {
		case <-r.done:
			respond(in, c.supervisor.runs.response(r), nil)
			return
		case <-queued:
			queued, started = nil, r.started
			_ = in.SendProgress(shim.ProgressQueued)
		case <-started:
			started = nil
			_ = in.SendProgress(shim.ProgressStarted)
		case <-in.Closed():
			return
		}
	}
}
