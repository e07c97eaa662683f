package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
	"golang.org/x/sys/unix"
)

// The limits of the connections of a container's processes. Each has one request.
const (
	// maxAskConns bounds the connections at once, and so the goroutines and the
	// memory that processes of the container can make init use.
	maxAskConns = 32
	// askIOTimeout bounds how long a process may take to send its request, and to
	// read the answer.
	askIOTimeout = 5 * time.Second
)

// askAcceptRate bounds how often init accepts a connection. Further ones wait in
// the kernel, which has room for a backlog of them.
var askAcceptRate = shim.Rate{PerSecond: 100, Burst: 200}

// askListener accepts connections of the container's processes.
//
// A connection outlives the process that opened it until it is read. So every
// one is closed when the processes of the container have ended, those that are
// not accepted yet included: none of them becomes a request of a later claim.
type askListener struct {
	asks   *asks
	origin func(pid int) (origin, error)
	pidfd  func(socket int) (int, error) // peerPidfd
	socket *os.File
	rate   *shim.Bucket

	// mu guards conns. It is held while a connection is accepted, so that closeAll
	// misses none.
	mu    sync.Mutex
	conns []*askConn // the oldest first
}

// askConn is a connection of one process.
type askConn struct {
	socket    *os.File
	peer      askPeer
	isReading bool // its request is not complete; guarded by askListener.mu
}

// listenAsks opens the socket of requests. A path is that of a container which is
// a directory: every user may connect.
func (s *supervisor) listenAsks() error {
	path := s.config.AskSocket
	if path == "" {
		path = shim.AskSocket
	}
	fd, err := listen(path)
	if err != nil {
		return err
	}
	if !isAbstract(path) {
		if err := errors.Join(os.Chmod(filepath.Dir(path), 0o755), os.Chmod(path, 0o666)); err != nil {
			unix.Close(fd)
			return err
		}
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return err
	}
	l := &askListener{
		asks: s.asks, origin: s.processOrigin, pidfd: peerPidfd,
		socket: os.NewFile(uintptr(fd), "requests"), rate: shim.NewBucket(askAcceptRate),
	}
	s.askListener = l
	go l.run() // ends with the process
	return nil
}

// run accepts connections.
func (l *askListener) run() {
	raw, err := l.socket.SyscallConn()
	for err == nil {
		for !l.rate.Take(time.Now()) {
			<-time.After(10 * time.Millisecond)
		}
		var failed error
		err = raw.Read(func(fd uintptr) bool {
			failed = l.accept(int(fd))
			return !errors.Is(failed, unix.EAGAIN)
		})
		if failed != nil { // it ends when other descriptors are closed
			<-time.After(10 * time.Millisecond)
		}
	}
	logError("accept requests", err)
}

// accept accepts one connection and starts to serve it.
func (l *askListener) accept(listener int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	if err != nil {
		return err
	}
	peer, err := peerOf(fd, l.pidfd)
	if err != nil {
		unix.Close(fd)
		return nil //nolint:nilerr // of one connection
	}
	c := &askConn{socket: os.NewFile(uintptr(fd), "request"), peer: peer, isReading: true}
	if !l.makeRoom() {
		c.close()
		return nil
	}
	l.conns = append(l.conns, c)
	go l.serve(c) // ends with the connection, whose parts have timeouts
	return nil
}

// makeRoom makes room for another connection: at the limit, the oldest one that
// has not sent its request gives way. It returns false if there is none. The
// caller holds mu.
func (l *askListener) makeRoom() bool {
	if len(l.conns) < maxAskConns {
		return true
	}
	slow := slices.IndexFunc(l.conns, func(c *askConn) bool { return c.isReading })
	if slow < 0 {
		return false
	}
	l.conns[slow].socket.Close()
	l.conns = slices.Delete(l.conns, slow, slow+1)
	return true
}

// serve serves one connection.
func (l *askListener) serve(c *askConn) {
	defer l.remove(c)
	from, err := c.peer.originOf(l.origin)
	if err != nil {
		return // it has exited, or belongs to another container
	}
	_ = c.socket.SetDeadline(time.Now().Add(askIOTimeout))
	ask, err := readAsk(c.socket)
	if err != nil {
		return
	}
	ask.FromHook, ask.RunID = from.isCommand, from.runID
	b, answer := l.begin(c, ask)
	if answer == nil {
		sent := l.asks.send(ask, b)
		b.end()
		answer = &sent
	}
	_ = c.socket.SetDeadline(time.Now().Add(askIOTimeout))
	_ = shim.WriteFrame(c.socket, shim.KindResponse, shim.Response{Answer: answer}) // the process may have exited
}

// begin counts the request, unless the connection was closed: the processes that
// existed when it was opened have ended.
func (l *askListener) begin(c *askConn, ask *shim.Ask) (b begun, refused *shim.Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.conns, c) {
		answer := shim.Refuse(runtime.ProblemNoClaim, "the connection was closed")
		return begun{}, &answer
	}
	c.isReading = false
	return l.asks.begin(ask)
}

// readAsk reads the request of a process.
func readAsk(socket io.Reader) (*shim.Ask, error) {
	f, err := shim.ReadFrame(socket, shim.MaxAskSize)
	if err != nil {
		return nil, err
	}
	request, err := shim.Decode[shim.Request](f, shim.KindRequest)
	if err == nil && (request.Op != shim.OpAsk || request.Ask == nil) {
		err = errInvalidRequest
	}
	return request.Ask, err
}

func (c *askConn) close() {
	c.socket.Close()
	c.peer.close()
}

func (l *askListener) remove(c *askConn) {
	c.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.conns, c); i >= 0 {
		l.conns = slices.Delete(l.conns, i, i+1)
	}
}

// closeAll closes every connection, also those that wait to be accepted, and
// forgets how many there were. The processes that opened them have ended. The
// receiver may be nil.
func (l *askListener) closeAll() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropConns()
}

// dropConns is closeAll for a caller that holds mu.
func (l *askListener) dropConns() {
	for _, c := range l.conns {
		c.socket.Close()
	}
	l.conns = nil
	raw, err := l.socket.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { closeBacklog(int(fd)) })
	}
	if err != nil {
		logError("close requests", err)
	}
	l.rate.Reset()
	l.asks.reset()
}

// closeBacklog closes the connections that wait to be accepted.
func closeBacklog(listener int) {
	for {
		fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if err == nil {
			unix.Close(fd)
		} else if !errors.Is(err, unix.EINTR) && !errors.Is(err, syscall.ECONNABORTED) {
			return
		}
	}
}

// origin is what a process of the container belongs to: a command that a server
// has started, such as a hook, or else the main process or a process that the
// engine has started.
type origin struct {
	isCommand bool
	runID     string // of the command
}

// maxAncestors bounds how deep a process may be below init. A deeper one counts
// as that of a command.
const maxAncestors = 1 << 10

// processOrigin returns what a process belongs to, by its ancestors: the
// descendants of a worker are those of its command, because a worker adopts them.
// It returns an error for a process that has exited and for one of another
// container. A PID of 0 is one of those: the kernel has no number for it here.
func (s *supervisor) processOrigin(pid int) (origin, error) { return s.originBy(proctree.Read, pid) }

// originBy is processOrigin with what reads a process.
func (s *supervisor) originBy(read func(pid int) (proctree.Process, error), pid int) (origin, error) {
	if pid <= 0 {
		return origin{}, errNotInContainer
	}
	var child proctree.Process
	for range maxAncestors {
		p, err := read(pid)
		if err != nil {
			return origin{}, err
		}
		if child.PID > 0 && !isChildOf(child, p) {
			return origin{}, errExited
		}
		if pid == os.Getpid() {
			return origin{}, nil
		}
		if runID, ok := s.workers.commandOf(p.ID); ok {
			return origin{isCommand: true, runID: runID}, nil
		}
		if p.Parent == 0 { // the engine has started it, or it is the machine's first
			if s.config.HostProcess {
				return origin{}, errNotInContainer
			}
			return origin{}, nil
		}
		child, pid = p, p.Parent
	}
	return origin{isCommand: true}, nil
}

// isChildOf reports whether a process is still the child of what has been read as
// its parent. A parent that exits loses its children before another process can get
// its PID.
func isChildOf(child, parent proctree.Process) bool {
	now, err := proctree.Read(child.PID)
	return err == nil && now.ID == child.ID && now.Parent == parent.PID
}

var errNotInContainer = errors.New("process is not in the container")
