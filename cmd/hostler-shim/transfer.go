package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
	"golang.org/x/sys/unix"
)

const (
	// maxTransfers bounds concurrent file transfers.
	maxTransfers = 16
	// maxResultSize bounds the response of a transfer process.
	maxResultSize = 64 << 10
	// transferPipeSize is the capacity of the pipes of a transfer process, in bytes.
	transferPipeSize = 256 << 10
)

// handleTransfer starts a file transfer. It responds when the transfer process
// has ended.
func (c *session) handleTransfer(in *shim.Incoming) error {
	r := in.Request
	if len(r.Paths) != 1 || r.Streams != 1 {
		return errInvalidRequest
	}
	go func() { respond(in, shim.Response{}, c.supervisor.transferFiles(in)) }() // ends with the archive or the session
	return nil
}

// errTooManyTransfers is the error for a transfer beyond maxTransfers.
var errTooManyTransfers = (&shim.WireError{Code: shim.CodeBusy, Detail: "too many file transfers are running"}).Err()

// transferFiles runs the transfer that a request asks for.
func (s *supervisor) transferFiles(in *shim.Incoming) error {
	select {
	case s.transfers <- struct{}{}:
		defer func() { <-s.transfers }()
	default:
		return errTooManyTransfers
	}
	// No transfer starts during a change, because a change kills all transfers.
	select {
	case s.changeSem <- struct{}{}:
	case <-in.Closed():
		return errSessionLost
	}
	kills := s.kills.Load()
	m, err := s.admitTransfer(in.Request)
	<-s.changeSem
	if err != nil {
		return fmt.Errorf("start the transfer process: %w", err)
	}
	defer m.stop()
	if err := in.SendProgress(shim.ProgressStarted); err != nil {
		return err
	}
	go m.killOnReset(in.Stream(0)) // ends with the transfer process
	err = m.copyData(in)
	if errors.Is(err, errTransferKilled) && s.kills.Load() != kills {
		return fmt.Errorf("%w: %w", runtime.ErrContainerExited, err)
	}
	return err
}

// admitTransfer starts a transfer process unless the flow of the request is no
// longer responsible for the container. Reading needs no fence. The caller holds
// changeSem.
func (s *supervisor) admitTransfer(r shim.Request) (*transferProcess, error) {
	if err := s.admit(r.Fence); err != nil {
		return nil, err
	}
	return s.startTransferProcess(r)
}

var (
	errSessionLost    = errors.New("connection lost")
	errTransferKilled = errors.New("the transfer process was killed")
)

// transferProcess is a process that transfers files. It runs as long as the server
// waits for it.
type transferProcess struct {
	id     proctree.ID
	stdin  *os.File // nil for none, and so is stdout
	stdout *os.File
	socket *os.File // carries its result
	exited <-chan unix.WaitStatus
	done   chan struct{} // closed when it is no longer needed
	result chan error
}

// transferPipes are the pipes to the processes of the operations.
var transferPipes = map[shim.Op]struct{ stdin, stdout bool }{
	shim.OpTar: {stdout: true}, shim.OpUntar: {stdin: true},
	shim.OpScan: {stdin: true, stdout: true}, shim.OpWrite: {stdin: true, stdout: true},
}

// startTransferProcess starts a transfer process. It is this program, and runs
// as our own user from its first instruction.
func (s *supervisor) startTransferProcess(r shim.Request) (_ *transferProcess, err error) {
	m := &transferProcess{done: make(chan struct{}), result: make(chan error, 1)}
	theirs := make([]int, 0, 4)
	defer func() {
		for _, fd := range theirs {
			unix.Close(fd)
		}
		if err != nil {
			m.closeFiles()
		}
	}()
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs = append(theirs, null)
	files := []uintptr{uintptr(null), uintptr(null), 2, 0}
	pipes := transferPipes[r.Op]
	for i, p := range []struct {
		wanted bool
		ours   **os.File
	}{{pipes.stdin, &m.stdin}, {pipes.stdout, &m.stdout}} {
		if !p.wanted {
			continue
		}
		ours, fd, err := pipe(i == 1)
		if err != nil {
			return nil, err
		}
		*p.ours, files[i], theirs = ours, uintptr(fd), append(theirs, fd)
		// A larger pipe saves a switch between the processes for each 64 KiB. A user
		// who has too many keeps a small one.
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, transferPipeSize)
	}
	socket, fd, err := socketPair()
	if err != nil {
		return nil, err
	}
	m.socket, files[3], theirs = socket, uintptr(fd), append(theirs, fd)
	if err := m.start(s, r, files); err != nil {
		return nil, err
	}
	go m.readResult() // ends with the process
	return m, nil
}

// closeFiles closes our ends.
func (m *transferProcess) closeFiles() {
	for _, f := range []*os.File{m.stdin, m.stdout, m.socket} {
		if f != nil {
			f.Close()
		}
	}
}

func (m *transferProcess) start(s *supervisor, r shim.Request, files []uintptr) error {
	args := []string{"hostler-shim", string(r.Op), "--root", s.config.Root, "--user", s.config.User}
	if r.Live {
		args = append(args, "--live")
	}
	args = append(args, "--", r.Paths[0])
	_, exited, err := s.reaper.start(func() (pid int, err error) {
		pid, err = syscall.ForkExec("/proc/self/exe", args, &syscall.ProcAttr{
			Dir: "/", Env: []string{}, Files: files, Sys: &syscall.SysProcAttr{Setpgid: true},
		})
		if err == nil {
			// It cannot be reaped yet, so its PID is still its own.
			var p proctree.Process
			p, err = proctree.Read(pid)
			m.id = p.ID
		}
		return pid, err
	})
	m.exited = exited
	return err
}

// readResult waits for the result of the process.
func (m *transferProcess) readResult() {
	f, err := shim.ReadFrame(m.socket, maxResultSize)
	if err != nil {
		m.result <- fmt.Errorf("%w: %w", errTransferKilled, err)
		return
	}
	response, err := shim.Decode[shim.Response](f, shim.KindResponse)
	if err == nil && response.Error != nil {
		err = response.Error.Err()
	}
	m.result <- err
}

// killOnReset kills the process when the server gives up or its connection is
// lost.
func (m *transferProcess) killOnReset(stream *shim.Stream) {
	select {
	case <-stream.Done():
		m.id.Signal(unix.SIGKILL)
	case <-m.done:
	}
}

// copyData copies between the process and the stream, in one direction or in both.
func (m *transferProcess) copyData(in *shim.Incoming) error {
	stream := in.Stream(0)
	if m.stdout == nil {
		if err := m.copyToProcess(stream); err != nil {
			return err
		}
		return <-m.result
	}
	if m.stdin != nil {
		go func() { _ = m.copyToProcess(stream) }() // ends with the request
	}
	if _, err := io.CopyBuffer(onlyWriter{stream}, onlyReader{m.stdout}, make([]byte, shim.MaxData)); err != nil {
		return err
	}
	if err := <-m.result; err != nil {
		return err
	}
	return stream.CloseWrite()
}

// copyToProcess copies from the stream. If the process stops reading, its result has
// the error.
func (m *transferProcess) copyToProcess(stream *shim.Stream) error {
	_, err := stream.WriteTo(m.stdin)
	if err != nil && !errors.Is(err, unix.EPIPE) {
		return err
	}
	m.stdin.Close()
	return nil
}

// These types hide all other methods, so that a copy uses the given buffer.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

// stop kills the process, if it is still running, and waits for its exit.
func (m *transferProcess) stop() {
	close(m.done)
	m.id.Signal(unix.SIGKILL)
	m.closeFiles()
	<-m.exited
}
