package main

import (
	"sync"
	"syscall"
	"time"

	"github.com/hostler/hostler/runtime/shim"
)

// halt is what init knows of its own end: that it was told to stop the main
// process, by a signal or by the server.
type halt struct {
	stopped chan struct{} // closed when there is no main process to wait for

	// mu guards what follows.
	mu        sync.Mutex
	started   bool
	stay      bool // init stays when the main process has ended
	isStopped bool // over is closed
	code      int  // the main process's, once done
}

// maxHaltLinger bounds how long init stays after the main process has ended, for
// a server that does not come back to remove the container.
const maxHaltLinger = 5 * time.Minute

// sigkillExitCode is the exit code of a process that SIGKILL ended.
const sigkillExitCode = 128 + int(syscall.SIGKILL)

// stopMain asks the main process to end, once; the grace period begins with the
// first call. When the main process has ended, or the grace period has, init
// ends the container, or stays until it is removed. One call that does not want
// it to stay is enough for it to go.
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

// onMainExit is called when the main process has ended by itself, was not there
// to be stopped, or did not end within its grace period. It ends the container,
// unless a stop has said otherwise.
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

// finishHalt ends a stop that waits for a main process which something else has
// ended.
func (s *supervisor) finishHalt() {
	s.halt.mu.Lock()
	started := s.halt.started
	s.halt.mu.Unlock()
	if started {
		s.onMainExit(0)
	}
}
