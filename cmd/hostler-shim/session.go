package main

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
	"golang.org/x/sys/unix"
)

const (
	helloTimeout = 10 * time.Second
	sendTimeout  = 30 * time.Second
)

// session is one connection to init.
type session struct {
	init    *supervisor
	socket  *os.File
	channel *shim.Channel // once the client has proven itself
	peer    proctree.ID
	over    chan struct{} // closed when the connection is

	writeMu sync.Mutex // guards writing to socket
}

func newSession(s *supervisor, fd int) *session {
	c := &session{init: s, over: make(chan struct{})}
	if peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
		if p, err := proctree.Read(int(peer.Pid)); err == nil {
			c.peer = p.ID
		}
	}
	c.socket = os.NewFile(uintptr(fd), "session")
	return c
}

// serve speaks to one client. It calls known once it has shown the token, or
// has gone without.
func (c *session) serve(known func()) {
	defer c.socket.Close()
	defer close(c.over)
	_ = c.socket.SetReadDeadline(time.Now().Add(helloTimeout))
	err := c.greet()
	_ = c.socket.SetReadDeadline(time.Time{})
	known()
	if err != nil {
		return
	}
	c.init.guests.enter(c, c.peer)
	defer c.init.guests.leave(c)
	for {
		f, err := c.channel.Read()
		if err != nil {
			return
		}
		request, err := shim.Decode[shim.Request](f, shim.KindRequest)
		if err != nil {
			return
		}
		if !c.handle(request) {
			return
		}
	}
}

// greet opens the channel to a client that holds the container's key.
func (c *session) greet() error {
	welcome := shim.Welcome{Boot: c.init.boot, Main: c.init.main.get(), Fault: c.init.main.fault()}
	channel, err := shim.Accept(c.socket, c.init.config.Key, welcome)
	if err != nil {
		return err
	}
	c.channel = channel
	if welcome.Fault != nil {
		time.AfterFunc(failedTold, c.init.exitFailed)
	}
	return nil
}

// send writes one message. A client that does not read loses its session.
func (c *session) send(kind shim.Kind, message any) error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	_ = c.socket.SetWriteDeadline(time.Now().Add(sendTimeout))
	err := c.channel.Write(kind, message)
	if err != nil {
		c.socket.Close()
	}
	return err
}

// handle begins one request. It is false when the client talks nonsense.
func (c *session) handle(r shim.Request) bool {
	if r.Op == shim.OpCancel {
		c.init.runs.cancel(r.Key)
		return true
	}
	if r.Op == shim.OpRun {
		if r.Run == nil || r.Run.Key == "" || len(r.Run.Args) == 0 || r.Run.Timeout <= 0 {
			return false
		}
		// The command outlives the session that asks for it.
		ctx, cancel := context.WithCancel(context.Background())
		known, fresh := c.init.runs.find(r.Run.Key, cancel)
		if fresh {
			go c.init.execute(ctx, known, *r.Run) // ends with the command
		} else {
			cancel()
		}
		go c.follow(r.ID, known) // ends with the command or the session
		return true
	}
	if r.Op == shim.OpOutcome {
		go c.tell(r) // ends with the command or the session
		return true
	}
	if r.Op == shim.OpHalt {
		go c.halt(r.ID) // ends with the grace period or the session
		return true
	}
	if r.Op == shim.OpChanged {
		go c.look(r) // ends when all was looked at, with its time or the session
		return true
	}
	if _, ok := changes[r.Op]; !ok {
		return false
	}
	go func() { // ends with the change, each of which is bounded
		err := c.init.change(r)
		answer := shim.Answer{ID: r.ID}
		if err != nil {
			answer.Fault = shim.NewFault(err)
		}
		_ = c.send(shim.KindAnswer, answer) // the client asks again
	}()
	return true
}

// tell answers what became of a run that another request has begun.
func (c *session) tell(r shim.Request) {
	if known := c.init.runs.known(r.Key); known != nil {
		c.follow(r.ID, known)
		return
	}
	fault := &shim.Fault{Code: shim.CodeNoRun, Detail: r.Key}
	_ = c.send(shim.KindAnswer, shim.Answer{ID: r.ID, Fault: fault}) // the client asks again
}

// halt stops the main process and answers when there is none any more.
func (c *session) halt(id uint64) {
	c.init.stopMain(true)
	select {
	case <-c.init.halt.over:
		_ = c.send(shim.KindAnswer, shim.Answer{ID: id}) // the client asks again
	case <-c.over:
	}
}

// follow tells the client how a run gets on.
func (c *session) follow(id uint64, r *run) {
	queued, begun := r.queued, (chan struct{})(nil)
	for {
		select {
		case <-r.done:
			answer := c.init.runs.outcome(r)
			answer.ID = id
			_ = c.send(shim.KindAnswer, answer) // the client asks again
			return
		case <-queued:
			queued, begun = nil, r.begun
			_ = c.send(shim.KindNote, shim.Note{ID: id, Turn: shim.TurnQueued})
		case <-begun:
			begun = nil
			_ = c.send(shim.KindNote, shim.Note{ID: id, Turn: shim.TurnStarted})
		case <-c.over:
			return
		}
	}
}
