package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
	"golang.org/x/sys/unix"
)

// logPipeTimeout bounds how long the engine may take to read what a main process
// has printed at its end.
const logPipeTimeout = 10 * time.Second

// logPipe carries what one life of the main process prints to the engine. The
// engine's own pipe is never the workload's: its size, its flags, and what is
// in it would be the next tenant's.
type logPipe struct {
	from *os.File
	to   int
	done chan struct{} // closed when all is carried
}

// newLogPipe makes an outlet to a descriptor, and the end that the main process
// writes to, which the caller closes.
func newLogPipe(to int) (*logPipe, int, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, startErrorf("make a pipe for its output: %s", err)
	}
	// The flags are those of this end only.
	if err := unix.SetNonblock(ends[0], true); err != nil {
		return nil, -1, errors.Join(startErrorf("open a pipe for its output: %s", err), unix.Close(ends[0]), unix.Close(ends[1]))
	}
	o := &logPipe{from: os.NewFile(uintptr(ends[0]), "output"), to: to, done: make(chan struct{})}
	go o.forward() // ends when nobody can write any more, or with finish
	return o, ends[1], nil
}

// forwardBufferSize is how much is carried at once, and maxPipeSize how much a pipe can
// hold.
const (
	forwardBufferSize = 16 << 10
	maxPipeSize       = 1 << 20
)

// forward copies until the last writer is gone. An engine that reads no more
// closes the pipe for the workload, too.
func (o *logPipe) forward() {
	defer close(o.done)
	defer o.from.Close()
	buf := make([]byte, forwardBufferSize)
	for {
		n, err := o.from.Read(buf)
		if n > 0 && writeAll(o.to, buf[:n]) != nil {
			return
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			o.forwardRemaining(buf)
			return
		}
		if err != nil {
			return
		}
	}
}

// forwardRemaining copies what is in the pipe now.
func (o *logPipe) forwardRemaining(buf []byte) {
	for left := maxPipeSize; left > 0; {
		n, err := unix.Read(int(o.from.Fd()), buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 || err != nil || writeAll(o.to, buf[:n]) != nil {
			return
		}
		left -= n
	}
}

func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
			if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
				return err
			}
		case err != nil:
			return err
		default:
			b = b[n:]
		}
	}
	return nil
}

// logPipes are those of the main process that was started last, and of those
// before it whose output is not carried yet.
type logPipes struct {
	// mu guards all.
	mu    sync.Mutex
	pipes []*logPipe
}

// unfinished are those that are not over. The caller holds mu.
func (o *logPipes) unfinished() []*logPipe {
	return slices.DeleteFunc(slices.Clone(o.pipes), func(one *logPipe) bool {
		select {
		case <-one.done:
			return true
		default:
			return false
		}
	})
}

// open makes the outlets of a main process that is about to start, and the
// descriptors for its stdout and stderr. Where both go to one file, so do they
// here, for the order of what is printed.
func (o *logPipes) open() (stdout, stderr int, err error) {
	out, stdout, err := newLogPipe(1)
	if err != nil {
		return -1, -1, err
	}
	pipes := []*logPipe{out}
	if sameFile(1, 2) {
		stderr, err = unix.FcntlInt(uintptr(stdout), unix.F_DUPFD_CLOEXEC, 0)
	} else {
		var errs *logPipe
		if errs, stderr, err = newLogPipe(2); err == nil {
			pipes = append(pipes, errs)
		}
	}
	if err != nil {
		unix.Close(stdout)
		return -1, -1, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pipes = append(o.unfinished(), pipes...)
	return stdout, stderr, nil
}

func sameFile(a, b int) bool {
	var x, y unix.Stat_t
	return unix.Fstat(a, &x) == nil && unix.Fstat(b, &y) == nil && x.Dev == y.Dev && x.Ino == y.Ino
}

// wait waits until all that was printed is carried, when every process has
// ended.
func (o *logPipes) wait() error {
	o.mu.Lock()
	pipes := o.pipes
	o.mu.Unlock()
	timer := time.NewTimer(logPipeTimeout)
	defer timer.Stop()
	for _, pipe := range pipes {
		select {
		case <-pipe.done:
		case <-timer.C:
			return fmt.Errorf("%w: what the main process has printed is not read", runtime.ErrUnavailable)
		}
	}
	return nil
}

// writeEndLine prints a line that says where the log of those who were in the
// container ends, when every process has ended. What the engine has taken it may
// write down later, and the time that it notes is that of the writing: only when
// it has written the line down as well is there nothing left.
func (o *logPipes) writeEndLine(line string, to int) error {
	if err := o.wait(); err != nil {
		return err
	}
	for deadline := time.Now().Add(logPipeTimeout); unreadBytes(to) > 0; { // or the line might be waited for without end
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: what the main process has printed is not read", runtime.ErrUnavailable)
		}
		<-time.After(time.Millisecond)
	}
	// The last line that was printed may have no end.
	if err := writeAll(to, []byte("\n"+line+"\n")); err != nil {
		return fmt.Errorf("end the log: %w", err)
	}
	return nil
}

// unreadBytes is how many bytes are in a pipe.
func unreadBytes(fd int) int {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return 0
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}

// finish carries what was printed so far and no more: the container ends, and
// what is left of it goes with it.
func (o *logPipes) finish() {
	o.mu.Lock()
	for _, pipe := range o.pipes {
		_ = pipe.from.SetReadDeadline(time.Now()) // it may be over
	}
	o.mu.Unlock()
	_ = o.wait() // nobody reads it
}
