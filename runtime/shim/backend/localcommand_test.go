package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// localCommands run commands as processes of this machine.
type localCommands struct {
	// lose makes the connection of one command be lost after that many bytes of
	// output, or of input. Negative means never.
	loseOutput, loseInput atomic.Int64
	opened                atomic.Int64
	unacknowledged        atomic.Int64  // the most at once
	script                string        // run in place of the program
	grace                 time.Duration // between SIGTERM and SIGKILL

	mu      sync.Mutex // guards streams
	streams map[string]*localStream
}

// localStream is an attachment to a process.
type localStream struct {
	commands     *localCommands
	process      *exec.Cmd
	stdin        *os.File
	stdout       *os.File
	ended        chan struct{}
	received     int64
	acknowledged int64
	sent         int64
	closed       atomic.Bool
	buffer       [shim.MaxData]byte
}

func (l *localCommands) OpenCommand(_ context.Context, _ string, cmd runtime.TenantCommand) (runtime.CommandStream, error) {
	l.opened.Add(1)
	if !cmd.Internal || cmd.Workdir != "/" {
		return nil, errors.New("not an internal command")
	}
	args := cmd.Args
	if l.script != "" {
		args = []string{"/bin/sh", "-c", l.script}
	}
	s := &localStream{commands: l, process: exec.Command(args[0], args[1:]...), ended: make(chan struct{})}
	inRead, inWrite, err1 := os.Pipe()
	outRead, outWrite, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	s.process.Stdin, s.process.Stdout, s.process.Stderr = inRead, outWrite, io.Discard
	s.stdin, s.stdout = inWrite, outRead
	if !cmd.Input {
		s.stdin.Close()
	}
	err := s.process.Start()
	inRead.Close()
	outWrite.Close()
	if err != nil {
		return nil, err
	}
	go func() { // ends with the process
		_ = s.process.Wait()
		close(s.ended)
	}()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams[cmd.ID] = s
	return s, nil
}

func (l *localCommands) EndCommand(_ context.Context, _, commandID string, _ int64) error {
	l.mu.Lock()
	s := l.streams[commandID]
	l.mu.Unlock()
	_ = s.process.Process.Signal(unix.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(l.grace):
		_ = s.process.Process.Kill()
		<-s.ended
	}
	return nil
}

// running returns how many processes run.
func (l *localCommands) running() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, s := range l.streams {
		select {
		case <-s.ended:
		default:
			n++
		}
	}
	return n
}

func (s *localStream) Start() runtime.CommandStart { return runtime.CommandStart{Created: true} }

var errLost = fmt.Errorf("%w: connection lost", runtime.ErrUnavailable)

func (s *localStream) Next() (runtime.CommandOutput, error) {
	if limit := s.commands.loseOutput.Load(); limit >= 0 && s.received >= limit {
		s.commands.loseOutput.Store(-1)
		return runtime.CommandOutput{}, errLost
	}
	n, err := s.stdout.Read(s.buffer[:])
	if errors.Is(err, io.EOF) {
		<-s.ended
		return runtime.CommandOutput{}, io.EOF
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errLost
	}
	if err != nil {
		return runtime.CommandOutput{}, err
	}
	out := runtime.CommandOutput{Offset: s.received, Data: s.buffer[:n]}
	s.received += int64(n)
	s.commands.unacknowledged.Store(max(s.commands.unacknowledged.Load(), s.received-s.acknowledged))
	return out, nil
}

func (s *localStream) Acknowledge(offset int64) error {
	s.acknowledged = offset
	return nil
}

func (s *localStream) Input(offset int64, p []byte) error {
	if offset != s.sent {
		return errors.New("not where it continues")
	}
	s.sent += int64(len(p))
	if limit := s.commands.loseInput.Load(); limit >= 0 && s.sent >= limit {
		s.commands.loseOutput.Store(0)
		_ = s.stdout.SetReadDeadline(time.Now())
		return errLost
	}
	_, err := s.stdin.Write(p)
	if errors.Is(err, unix.EPIPE) {
		return nil // it is discarded
	}
	return err
}

func (s *localStream) CloseInput() error                 { return s.stdin.Close() }
func (s *localStream) Resize(runtime.TerminalSize) error { return nil }
func (s *localStream) Signal(string) error               { return nil }
func (s *localStream) Result() (runtime.Result, error)   { return runtime.Result{}, nil }

func (s *localStream) Close() error {
	if !s.closed.Swap(true) {
		s.stdin.Close()
		s.stdout.Close()
	}
	return nil
}
