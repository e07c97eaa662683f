package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
	"golang.org/x/sys/unix"
)

const (
	// maxTransfers bounds concurrent file transfers.
	maxTransfers = 16
	// maxResultSize bounds the response of a transfer process.
	maxResultSize = 64 << 10
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
	return m.copyData(in)
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

var errSessionLost = errors.New("connection lost")

// transferProcess is a process that packs or unpacks files. It runs as long as
// the server waits for it.
type transferProcess struct {
	id     proctree.ID
	data   *os.File // its stdin or stdout
	socket *os.File // carries its result
	exited <-chan unix.WaitStatus
	done   chan struct{} // closed when it is no longer needed
	result chan error
}

// startTransferProcess starts a transfer process. It is this program, and runs
// as our own user from its first instruction.
func (s *supervisor) startTransferProcess(r shim.Request) (*transferProcess, error) {
	data, dataTheirs, err := pipe(r.Op == shim.OpTar)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dataTheirs)
	socket, socketTheirs, err := socketPair()
	if err != nil {
		data.Close()
		return nil, err
	}
	defer unix.Close(socketTheirs)
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		closeAll(data, socket)
		return nil, err
	}
	defer unix.Close(null)
	files := []uintptr{uintptr(null), uintptr(null), 2, uintptr(socketTheirs)}
	if r.Op == shim.OpTar {
		files[1] = uintptr(dataTheirs)
	} else {
		files[0] = uintptr(dataTheirs)
	}
	m := &transferProcess{data: data, socket: socket, done: make(chan struct{}), result: make(chan error, 1)}
	if err := m.start(s, r, files); err != nil {
		closeAll(data, socket)
		return nil, err
	}
	go m.readResult() // ends with the process
	return m, nil
}

func (m *transferProcess) start(s *supervisor, r shim.Request, files []uintptr) error {
	args := []string{"hostler-shim", string(r.Op), "--root", s.config.Root, "--user", s.config.User, "--", r.Paths[0]}
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
		m.result <- fmt.Errorf("the transfer process was killed: %w", err)
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

// copyData copies the archive between the process and the stream.
func (m *transferProcess) copyData(in *shim.Incoming) error {
	stream, buf := in.Stream(0), make([]byte, shim.MaxData)
	if in.Request.Op == shim.OpTar {
		if _, err := io.CopyBuffer(onlyWriter{stream}, onlyReader{m.data}, buf); err != nil {
			return err
		}
		if err := <-m.result; err != nil {
			return err
		}
		return stream.CloseWrite()
	}
	_, err := io.CopyBuffer(onlyWriter{m.data}, onlyReader{stream}, buf)
	if err != nil && !errors.Is(err, unix.EPIPE) {
		return err
	}
	m.data.Close()
	return <-m.result // if the process stops reading, its result has the error
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
	closeAll(m.data, m.socket)
	<-m.exited
}
