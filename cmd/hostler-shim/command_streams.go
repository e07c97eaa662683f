package main

import (
	"errors"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// commandStreams are our ends of the streams of a command. They are set before it is
// started.
type commandStreams struct {
	in, out, err *os.File // in is nil without input, err with a terminal
	// slave is the command's end of its terminal. It is open until the command has
	// ended: else reading would fail while no process of the command has it open.
	slave *os.File

	// mu guards closed. It is held while a terminal is changed.
	mu     sync.Mutex
	closed bool
}

// open opens the streams, and returns the command's ends: stdin, stdout and stderr,
// which may be the same.
func (s *commandStreams) open(r *shim.CommandRequest) (theirs [3]int, err error) {
	if r.Terminal != nil {
		return s.openTerminal(*r.Terminal)
	}
	theirs = [3]int{-1, -1, -1}
	if r.Input {
		s.in, theirs[0], err = pipe(false)
	} else {
		theirs[0], err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if err == nil {
		s.out, theirs[1], err = pipe(true)
	}
	if err == nil {
		s.err, theirs[2], err = pipe(true)
	}
	if err != nil {
		s.close()
		closeDescriptors(theirs)
	}
	return theirs, err
}

// openTerminal opens a terminal.
func (s *commandStreams) openTerminal(size runtime.TerminalSize) (theirs [3]int, err error) {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return theirs, &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	slave, err := openSlave(master)
	if err != nil {
		unix.Close(master)
		return theirs, err
	}
	s.out, s.slave = os.NewFile(uintptr(master), "terminal"), os.NewFile(uintptr(slave), "terminal")
	s.in = s.out
	s.resize(size)
	for i := range theirs {
		if theirs[i], err = unix.FcntlInt(uintptr(slave), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			closeDescriptors([3]int(append(theirs[:i:i], -1, -1, -1)[:3]))
			s.close()
			return theirs, os.NewSyscallError("duplicate the terminal", err)
		}
	}
	return theirs, nil
}

// openSlave opens the other end of a terminal.
func openSlave(master int) (int, error) {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, os.NewSyscallError("unlock the terminal", err)
	}
	slave, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, flags)
	if errno == 0 {
		return int(slave), nil
	}
	number, err := unix.IoctlGetInt(master, unix.TIOCGPTN) // gVisor has no TIOCGPTPEER
	if err != nil {
		return -1, os.NewSyscallError("find the terminal", err)
	}
	fd, err := unix.Open("/dev/pts/"+strconv.Itoa(number), flags, 0)
	return fd, os.NewSyscallError("open the terminal", err)
}

// resize changes the size of the terminal, if there is one.
func (s *commandStreams) resize(size runtime.TerminalSize) {
	s.control(func(fd int) {
		_ = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Columns}) // the size is no promise
	})
}

// foreground returns the process group in the foreground of the terminal, 0 if there
// is none.
func (s *commandStreams) foreground() (group int) {
	s.control(func(fd int) {
		if found, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil {
			group = found
		}
	})
	return group
}

// control calls f with the terminal, if there is one and it is open.
func (s *commandStreams) control(f func(fd int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slave == nil || s.closed {
		return
	}
	if raw, err := s.out.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) }) // it is open
	}
}

// close closes our ends.
func (s *commandStreams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	closeAll(s.in, s.out, s.err, s.slave) // a terminal is closed twice, which is harmless
}

func closeDescriptors(fds [3]int) {
	for _, fd := range fds {
		unix.Close(fd) // also -1, which is harmless
	}
}

// startStreams begins to read the output and to write the input.
func (c *tenantCommand) startStreams() *sync.WaitGroup {
	running := new(sync.WaitGroup)
	running.Go(func() { c.pump(c.streams.out, false) }) // all end with finishStreams
	if c.streams.err != nil {
		running.Go(func() { c.pump(c.streams.err, true) })
	}
	if c.streams.in != nil {
		running.Go(func() { c.feed(c.streams.in) })
	}
	return running
}

// pump reads output until it ends, or the command has ended. It reads no more than
// there is room for: the command waits in its next write.
func (c *tenantCommand) pump(from *os.File, stderr bool) {
	raw, err := from.SyscallConn()
	for err == nil && c.waitRoom() {
		ended := false
		err = raw.Read(func(fd uintptr) bool {
			var waits bool
			waits, ended = c.keepOutput(readFrom(fd), stderr)
			return !waits
		})
		if ended {
			return
		}
	}
}

// finishStreams is called when the command has ended. It keeps what is in the pipes
// and waits for nothing.
func (c *tenantCommand) finishStreams(running *sync.WaitGroup) {
	c.mu.Lock()
	c.isOver, c.discardsInput, c.pending = true, true, nil
	c.changed.Broadcast()
	c.mu.Unlock()
	s := &c.streams
	for _, f := range []*os.File{s.in, s.out, s.err} {
		if f != nil {
			_ = f.SetDeadline(time.Unix(1, 0)) // interrupts who waits
		}
	}
	running.Wait()
	if s.slave != nil {
		s.mu.Lock()
		s.slave.Close()
		s.mu.Unlock()
	}
	c.drainRest(s.out, false)
	if s.err != nil {
		c.drainRest(s.err, true)
	}
	s.close()
}

// drainRest keeps what is in a pipe. Another process may have inherited the other
// end and write to it: that ends with maxDrain.
func (c *tenantCommand) drainRest(from *os.File, stderr bool) {
	_ = from.SetReadDeadline(time.Time{})
	raw, err := from.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool { // it reports that it is done: this read never waits
		for range maxDrain / drainBufferSize {
			if waits, ended := c.keepOutput(readFrom(fd), stderr); waits || ended {
				break
			}
		}
		return true
	})
}

// readFrom returns a function that reads from a descriptor.
func readFrom(fd uintptr) func(p []byte) (int, error) {
	return func(p []byte) (n int, err error) {
		for n, err = unix.Read(int(fd), p); errors.Is(err, unix.EINTR); {
			n, err = unix.Read(int(fd), p)
		}
		return n, err
	}
}

func isWaiting(err error) bool { return errors.Is(err, unix.EAGAIN) }

// endInput tells the command that there is no more input: a terminal by the
// character for that, twice if a line is incomplete, which the first one ends.
func (c *tenantCommand) endInput(to *os.File) {
	if !c.terminal {
		to.Close()
		return
	}
	const endOfFile = 4
	c.mu.Lock()
	text := []byte{endOfFile, endOfFile}
	if c.lastInput == 0 || c.lastInput == '\n' || c.lastInput == '\r' {
		text = text[:1]
	}
	c.mu.Unlock()
	_, _ = to.Write(text) // the command may have ended
}

// resize changes the size of the command's terminal, if it has one.
func (c *tenantCommand) resize(size runtime.TerminalSize) { c.streams.resize(size) }
