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
	// maxTransfers bounds how many archives are packed or unpacked at once.
	maxTransfers = 16
	// maxResultSize bounds what a mover says of its end.
	maxResultSize = 64 << 10
)

// handleTransfer begins to move files. It answers when the process that moves them has
// ended.
func (c *session) handleTransfer(in *shim.Incoming) error {
	r := in.Request
	if len(r.Paths) != 1 || r.Streams != 1 {
		return errInvalidRequest
	}
	go func() { respond(in, shim.Response{}, c.supervisor.transferFiles(in)) }() // ends with the archive or the session
	return nil
}

// errTooManyTransfers refuses an archive while others are moved.
var errTooManyTransfers = (&shim.WireError{Code: shim.CodeBusy, Detail: "too many archives are packed and unpacked in it"}).Err()

// transferFiles moves what a request asks for.
func (s *supervisor) transferFiles(in *shim.Incoming) error {
	select {
	case s.transfers <- struct{}{}:
		defer func() { <-s.transfers }()
	default:
		return errTooManyTransfers
	}
	// None begins in the middle of a change, which ends all there are.
	select {
	case s.changeSem <- struct{}{}:
	case <-in.Closed():
		return errSessionLost
	}
	m, err := s.startTransferProcess(in.Request)
	<-s.changeSem
	if err != nil {
		return fmt.Errorf("start a process that moves files: %w", err)
	}
	defer m.stop()
	if err := in.SendProgress(shim.ProgressStarted); err != nil {
		return err
	}
	go m.killOnReset(in.Stream(0)) // ends with the mover
	return m.copyData(in)
}

var errSessionLost = errors.New("the session was lost")

// transferProcess is a process that packs or unpacks files. It is waited for as long as the
// server waits.
type transferProcess struct {
	id     proctree.ID
	data   *os.File // its stdin or stdout
	socket *os.File // where it says how it ended
	exited <-chan unix.WaitStatus
	done   chan struct{} // closed when nobody needs it any more
	result chan error
}

// startTransferProcess starts one. It is this program, of our own user from its first
// instruction on.
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
			// It cannot be reaped yet, so its number is still its own.
			var p proctree.Process
			p, err = proctree.Read(pid)
			m.id = p.ID
		}
		return pid, err
	})
	m.exited = exited
	return err
}

// readResult waits for what the process says of its end.
func (m *transferProcess) readResult() {
	f, err := shim.ReadFrame(m.socket, maxResultSize)
	if err != nil {
		m.result <- fmt.Errorf("the process that moves files was ended: %w", err)
		return
	}
	response, err := shim.Decode[shim.Response](f, shim.KindResponse)
	if err == nil && response.Error != nil {
		err = response.Error.Err()
	}
	m.result <- err
}

// killOnReset ends the process when the server gives up, or is lost.
func (m *transferProcess) killOnReset(stream *shim.Stream) {
	select {
	case <-stream.Done():
		m.id.Signal(unix.SIGKILL)
	case <-m.done:
	}
}

// copyData carries the archive from one end to the other.
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
	return <-m.result // a process that does not read on says why
}

// Without more methods than these, a copy uses the buffer that it is given.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

// stop ends the process, if it has not ended, and waits for that.
func (m *transferProcess) stop() {
	close(m.done)
	m.id.Signal(unix.SIGKILL)
	closeAll(m.data, m.socket)
	<-m.exited
}
