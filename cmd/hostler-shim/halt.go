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
	over chan struct{} // closed when there is no main process to wait for

	// mu guards what follows.
	mu    sync.Mutex
	begun bool
	stay  bool // init stays when the main process has ended
	done  bool // over is closed
	code  int  // the main process's, once done
}

// haltedStay bounds how long init stays after the main process has ended, for
// a server that does not come back to remove the container.
const haltedStay = 5 * time.Minute

// killedCode is the exit code of a process that SIGKILL ended.
const killedCode = 128 + int(syscall.SIGKILL)

// stopMain asks the main process to end, once; the grace period begins with the
// first call. When the main process has ended, or the grace period has, init
// ends the container, or stays until it is removed. One call that does not want
// it to stay is enough for it to go.
func (s *supervisor) stopMain(stay bool) {
	h := &s.halt
	h.mu.Lock()
	first := !h.begun
	h.begun = true
	h.stay = stay && (first || h.stay)
	done, code := h.done, h.code
	h.mu.Unlock()
	if done && !stay {
		s.exit(code)
	}
	if !first {
		return
	}
	if !s.main.signal(syscall.Signal(s.config.StopSignal)) {
		s.mainEnded(0)
		return
	}
	if s.config.StopGrace > 0 {
		time.AfterFunc(s.config.StopGrace, func() { s.mainEnded(killedCode) })
	}
}

// mainEnded is called when the main process has ended by itself, was not there
// to be stopped, or did not end within its grace period. It ends the container,
// unless a stop has said otherwise.
func (s *supervisor) mainEnded(code int) {
	h := &s.halt
	h.mu.Lock()
	if !h.stay {
		h.mu.Unlock()
		s.exit(code)
		return
	}
	defer h.mu.Unlock()
	if h.done {
		return
	}
	h.done, h.code = true, code
	s.main.set(shim.MainStopped, 0, nil)
	close(h.over)
	time.AfterFunc(haltedStay, func() { s.exit(code) })
}

// endHalt ends a stop that waits for a main process which something else has
// ended.
func (s *supervisor) endHalt() {
	s.halt.mu.Lock()
	begun := s.halt.begun
	s.halt.mu.Unlock()
	if begun {
		s.mainEnded(0)
	}
}
