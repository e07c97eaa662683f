package main

import (
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/hostler/hostler/runtime/shim"
)

// halt is the state of a stop of the main process, which a signal or the server
// has requested. It is final: init does not start the main process again, and the
// container is not clean. The signal may be a tenant's, if init has the
// tenant's user.
type halt struct {
	stopped chan struct{} // closed when the stop is complete

	// mu guards the fields below.
	mu        sync.Mutex
	started   bool
	asked     bool // by the server, which needs nothing of the container any more
	held      bool // by a signal, after which init stays for a tenant's files
	stay      bool // init keeps running when the main process has exited
	isStopped bool // stopped is closed
	code      int  // the main process's exit code, once isStopped
}

// maxHaltLinger bounds how long init keeps running after the main process has
// exited, in case the server does not come back to remove the container.
const maxHaltLinger = 5 * time.Minute

// sigkillExitCode is the exit code of a process that SIGKILL has ended.
const sigkillExitCode = 128 + int(syscall.SIGKILL)

// stopMain asks the main process to exit, once. The grace period starts with
// the first call. When the main process has exited or the grace period is over,
// init ends the container, or keeps running until the container is removed. A
// single call without stay is enough to end the container.
func (s *supervisor) stopMain(stay bool) {
	h := &s.halt
	h.mu.Lock()
	first := !h.started
	h.started = true
	h.stay = stay && (first || h.stay)
	stopped, code := h.isStopped, h.code
	h.mu.Unlock()
	if stopped && !stay {
		s.exit(code)
	}
	if !first {
		return
	}
	if !s.main.signal(syscall.Signal(s.config.StopSignal)) {
		s.onMainExit(0)
		return
	}
	if s.config.StopGrace > 0 {
		time.AfterFunc(s.config.StopGrace, func() { s.onMainExit(sigkillExitCode) })
	}
}

// onMainExit is called when the main process has exited by itself, was not
// running at a stop, or did not exit within its grace period. It ends the
// container unless a stop with stay is in progress.
func (s *supervisor) onMainExit(code int) {
	h := &s.halt
	h.mu.Lock()
	if !h.stay {
		h.mu.Unlock()
		s.exit(code)
		return
	}
	defer h.mu.Unlock()
	if h.isStopped {
		return
	}
	h.isStopped, h.code = true, code
	s.main.set(shim.MainStopped, 0, nil)
	close(h.stopped)
	time.AfterFunc(maxHaltLinger, func() { s.exit(code) })
}

// errHalted is why a container cannot be used again.
var errHalted = errors.New("it was told to stop")

// err returns errHalted once a stop was requested.
func (h *halt) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.started {
		return nil
	}
	return errHalted
}

// ask records that the server asks for the end. It returns whether init stays for a
// tenant's files after a signal, which will not be sent again.
func (h *halt) ask() (held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = true
	return h.held
}

// hold records that init stays after a signal.
func (h *halt) hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = true
}

func (h *halt) isAsked() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked
}

// finishHalt completes a stop whose main process was ended by something else.
func (s *supervisor) finishHalt() {
	if s.halt.err() != nil {
		s.onMainExit(0)
	}
}
