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

// outletTime bounds how long the engine may take to read what a main process
// has printed at its end.
const outletTime = 10 * time.Second

// outlet carries what one life of the main process prints to the engine. The
// engine's own pipe is never the workload's: its size, its flags, and what is
// in it would be the next tenant's.
type outlet struct {
	from *os.File
	to   int
	over chan struct{} // closed when all is carried
}

// newOutlet makes an outlet to a descriptor, and the end that the main process
// writes to, which the caller closes.
func newOutlet(to int) (*outlet, int, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, startFailed("make a pipe for its output: %s", err)
	}
	// The flags are those of this end only.
	if err := unix.SetNonblock(ends[0], true); err != nil {
		return nil, -1, errors.Join(startFailed("open a pipe for its output: %s", err), unix.Close(ends[0]), unix.Close(ends[1]))
	}
	o := &outlet{from: os.NewFile(uintptr(ends[0]), "output"), to: to, over: make(chan struct{})}
	go o.carry() // ends when nobody can write any more, or with finish
	return o, ends[1], nil
}

// carrySize is how much is carried at once, and mostLeft how much a pipe can
// hold.
const (
	carrySize = 16 << 10
	mostLeft  = 1 << 20
)

// carry copies until the last writer is gone. An engine that reads no more
// closes the pipe for the workload, too.
func (o *outlet) carry() {
	defer close(o.over)
	defer o.from.Close()
	buf := make([]byte, carrySize)
	for {
		n, err := o.from.Read(buf)
		if n > 0 && writeAll(o.to, buf[:n]) != nil {
			return
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			o.carryLeft(buf)
			return
		}
		if err != nil {
			return
		}
	}
}

// carryLeft copies what is in the pipe now.
func (o *outlet) carryLeft(buf []byte) {
	for left := mostLeft; left > 0; {
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

// outlets are those of the main process that was started last, and of those
// before it whose output is not carried yet.
type outlets struct {
	// mu guards all.
	mu  sync.Mutex
	all []*outlet
}

// left are those that are not over. The caller holds mu.
func (o *outlets) left() []*outlet {
	return slices.DeleteFunc(slices.Clone(o.all), func(one *outlet) bool {
		select {
		case <-one.over:
			return true
		default:
			return false
		}
	})
}

// open makes the outlets of a main process that is about to start, and the
// descriptors for its stdout and stderr. Where both go to one file, so do they
// here, for the order of what is printed.
func (o *outlets) open() (stdout, stderr int, err error) {
	out, stdout, err := newOutlet(1)
	if err != nil {
		return -1, -1, err
	}
	all := []*outlet{out}
	if sameFile(1, 2) {
		stderr, err = unix.FcntlInt(uintptr(stdout), unix.F_DUPFD_CLOEXEC, 0)
	} else {
		var errs *outlet
		if errs, stderr, err = newOutlet(2); err == nil {
			all = append(all, errs)
		}
	}
	if err != nil {
		unix.Close(stdout)
		return -1, -1, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.left(), all...)
	return stdout, stderr, nil
}

func sameFile(a, b int) bool {
	var x, y unix.Stat_t
	return unix.Fstat(a, &x) == nil && unix.Fstat(b, &y) == nil && x.Dev == y.Dev && x.Ino == y.Ino
}

// await waits until all that was printed is carried, when every process has
// ended.
func (o *outlets) await() error {
	o.mu.Lock()
	all := o.all
	o.mu.Unlock()
	limit := time.NewTimer(outletTime)
	defer limit.Stop()
	for _, outlet := range all {
		select {
		case <-outlet.over:
		case <-limit.C:
			return fmt.Errorf("%w: what the main process has printed is not read", runtime.ErrUnavailable)
		}
	}
	return nil
}

// endLog prints a line that says where the log of those who were in the
// container ends, when every process has ended. What the engine has taken it may
// write down later, and the time that it notes is that of the writing: only when
// it has written the line down as well is there nothing left.
func (o *outlets) endLog(line string, to int) error {
	if err := o.await(); err != nil {
		return err
	}
	for limit := time.Now().Add(outletTime); unread(to) > 0; { // or the line might be waited for without end
		if time.Now().After(limit) {
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

// unread is how many bytes are in a pipe.
func unread(fd int) int {
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
func (o *outlets) finish() {
	o.mu.Lock()
	for _, outlet := range o.all {
		_ = outlet.from.SetReadDeadline(time.Now()) // it may be over
	}
	o.mu.Unlock()
	_ = o.await() // nobody reads it
}
