package main

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// drainBufferSize is the size of one read. maxDrain is the maximum that a pipe
// can still hold when its writers have exited: the kernel lets no unprivileged
// process make a larger pipe.
const (
	drainBufferSize = 16 << 10
	maxDrain        = 1 << 20
)

// pipe creates a pipe. Our end never blocks a thread, and the other end is an
// ordinary one.
func pipe(weRead bool) (ours *os.File, theirs int, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, err
	}
	mine, other := fds[0], fds[1]
	if !weRead {
		mine, other = other, mine
	}
	if err := unix.SetNonblock(mine, true); err != nil {
		unix.Close(mine)
		unix.Close(other)
		return nil, -1, err
	}
	return os.NewFile(uintptr(mine), "pipe"), other, nil
}

// drain reads one stream of a command until its end. It never makes the command
// wait for a reader.
type drain struct {
	limit *outputLimit
	from  *os.File
	buf   []byte // used by run until done is closed, then by finish
	done  chan struct{}

	mu      sync.Mutex // guards capture
	capture runtime.Capture
}

func newDrain(from *os.File, limit *outputLimit) *drain {
	d := &drain{from: from, limit: limit, buf: make([]byte, drainBufferSize), done: make(chan struct{})}
	go d.run() // ends at the end of the stream, or when finish is called
	return d
}

func (d *drain) run() {
	defer close(d.done)
	for {
		n, err := d.from.Read(d.buf)
		d.keep(d.buf[:n])
		if err != nil {
			return
		}
	}
}

// finish is called when the command has exited. Its end of the pipe is closed
// by then unless another process inherited it. finish reads what is in the pipe
// and waits for nothing.
func (d *drain) finish() {
	_ = d.from.SetReadDeadline(time.Unix(1, 0)) // interrupts a waiting Read
	<-d.done
	_ = d.from.SetReadDeadline(time.Time{})
	if raw, err := d.from.SyscallConn(); err == nil {
		// The function reports immediately that it is done: this read never
		// waits.
		_ = raw.Read(func(fd uintptr) bool { d.readRest(int(fd)); return true })
	}
	d.from.Close()
}

func (d *drain) readRest(fd int) {
	for read := 0; read < maxDrain; {
		n, err := unix.Read(fd, d.buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		d.keep(d.buf[:n])
		read += n
	}
}

func (d *drain) keep(b []byte) {
	d.mu.Lock()
	_, _ = d.capture.Write(b) // never fails
	d.mu.Unlock()
	d.limit.add(len(b))
}

// pipeRoom is what a new pipe always has room for.
const pipeRoom = 4 << 10

// openInput returns what a command reads its input from: a pipe, or /dev/null
// without input. feed is our end of the pipe if the input is to be written to it.
// It is nil if the input is in the pipe already, which takes neither a goroutine
// nor the poller: every hook has such an input.
func openInput(input []byte) (theirs int, feed *os.File, err error) {
	if len(input) > pipeRoom {
		feed, theirs, err = pipe(false)
		return theirs, feed, err
	}
	if len(input) == 0 {
		theirs, err = unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
		return theirs, nil, err
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return -1, nil, err
	}
	defer unix.Close(fds[1])
	if n, err := unix.Write(fds[1], input); err != nil || n < len(input) {
		unix.Close(fds[0])
		return -1, nil, firstError(err, io.ErrShortWrite)
	}
	return fds[0], nil, nil
}

// feeder writes a command's input. A command that does not read it is not an
// error.
type feeder struct {
	to   *os.File
	done chan struct{}
}

func newFeeder(to *os.File, input []byte) *feeder {
	f := &feeder{to: to, done: make(chan struct{})}
	go func() { // ends when all is written, when the reader exits, or with finish
		defer close(f.done)
		_, _ = f.to.Write(input)
		f.to.Close()
	}()
	return f
}

func (f *feeder) finish() {
	_ = f.to.SetWriteDeadline(time.Unix(1, 0))
	<-f.done
}

// socketPair returns a connected pair of sockets: ours supports deadlines,
// theirs is an ordinary one.
func socketPair() (ours *os.File, theirs int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, err
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, -1, err
	}
	return os.NewFile(uintptr(fds[0]), "worker"), fds[1], nil
}

// copyAll copies until either side ends. An error means that a side has ended.
func copyAll(to io.Writer, from io.Reader) {
	_, _ = io.CopyBuffer(onlyWriter{to}, onlyReader{from}, make([]byte, shim.MaxData))
}
