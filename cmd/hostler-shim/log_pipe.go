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

// logPipeTimeout bounds how long the engine may take to read what a main
// process has printed before it exited.
const logPipeTimeout = 10 * time.Second

// logPipe forwards the output of one run of the main process to the engine. The
// workload never gets the engine's own pipe, because its size, its flags and
// its content would be passed on to the next tenant.
type logPipe struct {
	from *os.File
	to   int
	done chan struct{} // closed when all output is forwarded
}

// newLogPipe creates a logPipe to a descriptor, and the end that the main
// process writes to. The caller closes that end.
func newLogPipe(to int) (*logPipe, int, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, startErrorf("create a pipe for the output: %s", err)
	}
	// The flag applies to this end only.
	if err := unix.SetNonblock(ends[0], true); err != nil {
		return nil, -1, errors.Join(startErrorf("open a pipe for the output: %s", err), unix.Close(ends[0]), unix.Close(ends[1]))
	}
	o := &logPipe{from: os.NewFile(uintptr(ends[0]), "output"), to: to, done: make(chan struct{})}
	go o.forward() // ends when no process can write any more, or with finish
	return o, ends[1], nil
}

// forwardBufferSize is the size of one read, and maxPipeSize is the maximum
// size of a pipe.
const (
	forwardBufferSize = 16 << 10
	maxPipeSize       = 1 << 20
)

// forward copies until the last writer has closed the pipe. If the engine stops
// reading, the workload's pipe is closed, too.
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

// logPipes are the pipes of the main process that was started last, and of
// earlier ones whose output is not yet forwarded.
type logPipes struct {
	// mu guards pipes.
	mu    sync.Mutex
	pipes []*logPipe
}

// unfinished returns the pipes that are not done. The caller holds mu.
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

// open creates the pipes of a main process that is about to start, and returns
// the descriptors for its stdout and stderr. If both of init's are the same
// file, so are these, to keep the order of the output.
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

// wait waits until all output is forwarded. Every process must have exited.
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
			return fmt.Errorf("%w: the engine has not read the output of the main process", runtime.ErrUnavailable)
		}
	}
	return nil
}

// writeEndLine prints a line that marks the end of the log. Every process must
// have exited. The engine may write down what it has read later, with the time
// of writing: only when the engine has written this line as well is no earlier
// output left.
func (o *logPipes) writeEndLine(line string, to int) error {
	if err := o.wait(); err != nil {
		return err
	}
	for deadline := time.Now().Add(logPipeTimeout); unreadBytes(to) > 0; { // otherwise writing the line could block indefinitely
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: the engine has not read the output of the main process", runtime.ErrUnavailable)
		}
		<-time.After(time.Millisecond)
	}
	// The last printed line may lack a newline.
	if err := writeAll(to, []byte("\n"+line+"\n")); err != nil {
		return fmt.Errorf("write the end of the log: %w", err)
	}
	return nil
}

// unreadBytes returns how many bytes are in a pipe.
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

// finish forwards what has been printed so far and no more: the container ends,
// and its remaining processes with it.
func (o *logPipes) finish() {
	o.mu.Lock()
	for _, pipe := range o.pipes {
		_ = pipe.from.SetReadDeadline(time.Now()) // the pipe may be done
	}
	o.mu.Unlock()
	_ = o.wait() // a timeout means that the engine does not read
}
