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

// helloTimeout is how long a new connection may take to prove itself.
const helloTimeout = 10 * time.Second

// session is one connection to init.
type session struct {
	init   *supervisor
	socket *os.File
	conn   *shim.Conn // once the client has proven itself
	peer   proctree.ID
	inside bool // the peer is a process of the container
}

func newSession(s *supervisor, fd int) *session {
	c := &session{init: s, socket: os.NewFile(uintptr(fd), "session")}
	if peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
		c.peer, c.inside = peerOf(int(peer.Pid))
	}
	return c
}

// peerOf looks at the process that has connected, and reports whether it is one of
// the container's: its parent is in the container as well, or it has ended since.
// The engine's bridge has its parent outside, which no process of a tenant can
// get. The number is 0 for one that the kernel does not tell.
func peerOf(pid int) (id proctree.ID, inside bool) {
	if pid <= 0 {
		return proctree.ID{}, false
	}
	p, err := proctree.Read(pid)
	if err != nil {
		return proctree.ID{}, true
	}
	return p.ID, p.Parent != 0
}

// serve speaks to one client. It calls known once it has shown the token, or
// has gone without.
func (c *session) serve(known func()) {
	defer c.socket.Close()
	_ = c.socket.SetReadDeadline(time.Now().Add(helloTimeout))
	err := c.greet()
	_ = c.socket.SetReadDeadline(time.Time{})
	known()
	if err != nil {
		return
	}
	c.init.guests.enter(c, c.peer)
	defer c.init.guests.leave(c)
	c.conn.Run()
}

// greet opens the connection to a client that holds the container's key.
func (c *session) greet() error {
	welcome := shim.Welcome{Boot: c.init.boot, Main: c.init.main.get(), Fault: c.init.main.fault()}
	channel, err := shim.Accept(c.socket, c.init.config.Key, welcome)
	if err != nil {
		return err
	}
	c.conn = shim.NewConn(c.socket, channel, c.handle, nil)
	if welcome.Fault != nil {
		time.AfterFunc(failedTold, c.init.exitFailed)
	}
	return nil
}

// errNonsense is a request that no server of ours sends.
var errNonsense = fmt.Errorf("%w: an invalid request", shim.ErrProtocol)

// handle begins one request.
func (c *session) handle(in *shim.Incoming) error {
	r := in.Request
	if in.OneWay() {
		if r.Op != shim.OpCancel {
			return errNonsense
		}
		c.init.runs.cancel(r.Key)
		return nil
	}
	if _, ok := changes[r.Op]; ok {
		go c.change(in) // ends with the change, each of which is bounded
		return nil
	}
	begin, ok := requests[r.Op]
	if !ok {
		return errNonsense
	}
	return begin(c, in)
}

// requests are those that change nothing of the container as a whole.
var requests = map[shim.Op]func(c *session, in *shim.Incoming) error{
	shim.OpRun:   (*session).run,
	shim.OpTar:   (*session).transfer,
	shim.OpUntar: (*session).transfer,
	// These end with what they wait for, or with the session.
	shim.OpOutcome: func(c *session, in *shim.Incoming) error { go c.tell(in); return nil },
	shim.OpHalt:    func(c *session, in *shim.Incoming) error { go c.halt(in); return nil },
	shim.OpChanged: func(c *session, in *shim.Incoming) error { go c.look(in); return nil },
}

// answer ends a request. One whose answer is lost is asked again by the client.
func answer(in *shim.Incoming, a shim.Answer, err error) {
	if err != nil {
		a.Fault = shim.NewFault(err)
	}
	_ = in.Answer(a)
}

// change does a change of the container as a whole.
func (c *session) change(in *shim.Incoming) { answer(in, shim.Answer{}, c.init.change(in.Request)) }

// run begins a command, unless its key is known, and tells its outcome.
func (c *session) run(in *shim.Incoming) error {
	spec := in.Request.Run
	if spec == nil || spec.Key == "" || len(spec.Args) == 0 || spec.Timeout <= 0 {
		return errNonsense
	}
	// The command outlives the session that asks for it.
	ctx, cancel := context.WithCancel(context.Background())
	known, fresh := c.init.runs.find(spec.Key, cancel)
	if fresh {
		go c.init.execute(ctx, known, *spec) // ends with the command
	} else {
		cancel()
	}
	go c.follow(in, known) // ends with the command or the session
	return nil
}

// tell answers what became of a run that another request has begun.
func (c *session) tell(in *shim.Incoming) {
	if known := c.init.runs.known(in.Request.Key); known != nil {
		c.follow(in, known)
		return
	}
	_ = in.Answer(shim.Answer{Fault: &shim.Fault{Code: shim.CodeNoRun, Detail: in.Request.Key}})
}

// halt stops the main process and answers when there is none any more.
func (c *session) halt(in *shim.Incoming) {
	c.init.stopMain(true)
	select {
	case <-c.init.halt.over:
		answer(in, shim.Answer{}, nil)
	case <-in.Lost():
	}
}

// follow tells the client how a run gets on.
func (c *session) follow(in *shim.Incoming, r *run) {
	queued, begun := r.queued, (chan struct{})(nil)
	for {
		select {
		case <-r.done:
			answer(in, c.init.runs.outcome(r), nil)
			return
		case <-queued:
			queued, begun = nil, r.begun
			_ = in.Note(shim.TurnQueued)
		case <-begun:
			begun = nil
			_ = in.Note(shim.TurnStarted)
		case <-in.Lost():
			return
		}
	}
}
