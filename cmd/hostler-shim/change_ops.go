package main

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
)

// changeOps are the requests that change the container as a whole.
var changeOps = map[shim.Op]func(s *supervisor, r shim.Request) error{
	shim.OpRestart:        func(s *supervisor, _ shim.Request) error { return s.restart() },
	shim.OpStartMain:      (*supervisor).startMainIfWaiting,
	shim.OpStop:           func(s *supervisor, _ shim.Request) error { return s.killAll() },
	shim.OpRecordBaseline: func(s *supervisor, _ shim.Request) error { return s.recordBaseline() },
	shim.OpWipe:           func(s *supervisor, r shim.Request) error { return s.wipe(r.Paths) },
}

// errWaitsForStart is the error of every other change before the main process of
// a container that its engine has restarted is started: it exited, and the server
// that starts it has to record that.
var errWaitsForStart = (&shim.WireError{Code: shim.CodeNotRunning, Detail: "it exited and was not started since"}).Err()

// applyChange runs one change at a time. It refuses a request with a smaller
// fence than an earlier change had.
func (s *supervisor) applyChange(r shim.Request) error {
	apply, ok := changeOps[r.Op]
	if !ok {
		return fmt.Errorf("unknown change %q", r.Op)
	}
	s.changeSem <- struct{}{}
	defer func() { <-s.changeSem }()
	if r.Op != shim.OpStartMain || r.Fence != shim.NoFence {
		if err := s.fence.admit(r.Fence); err != nil {
			if s.canExitWaiting() { // after the response
				time.AfterFunc(startErrorLinger, s.exitIfWaiting)
			}
			return err
		}
	}
	if s.waitsForStart && r.Op != shim.OpStartMain {
		return errWaitsForStart
	}
	return apply(s, r)
}

// maxStartWait is how long init waits for the request to start the main process.
const maxStartWait = 30 * time.Second

// waitForStart leaves the main process to OpStartMain. The engine has started the
// container again, possibly for a flow that is no longer responsible for it: only
// the fence of the request shows that.
func (s *supervisor) waitForStart() {
	s.waitsForStart = true
	s.main.set(shim.MainStopped, 0, nil)
	if s.canExitWaiting() {
		time.AfterFunc(maxStartWait, s.exitIfWaiting)
	}
}

// canExitWaiting reports whether init may exit while it waits for a start: an
// engine with a StartedMarker would restart the container again.
func (s *supervisor) canExitWaiting() bool { return s.waitsForStart && s.config.StartedMarker == "" }

// exitIfWaiting ends the container unless its main process was started: the
// engine then reports the container as exited, as it was before.
func (s *supervisor) exitIfWaiting() {
	s.changeSem <- struct{}{}
	defer func() { <-s.changeSem }()
	if s.waitsForStart {
		logError("wait for a start", errWaitsForStart)
		s.exit(exitFailed)
	}
}

// startMainIfWaiting starts the main process if no request has changed the
// container since init was started. A request without a fence may be late, so it
// must not undo a stop or a wipe.
func (s *supervisor) startMainIfWaiting(r shim.Request) error {
	startErr := s.main.startError()
	switch {
	case s.waitsForStart:
		return s.restart()
	case s.main.get() == shim.MainRunning:
		return nil
	case startErr != nil:
		return startErr.Err() // an earlier response was lost
	case r.Fence != shim.NoFence:
		return s.restart() // stopped by the same flow
	}
	return fmt.Errorf("%w: the container was stopped since it was started", runtime.ErrStaleFence)
}

// restart kills every process and starts the main process again. It does not
// ask them to exit: what a main process saves when asked would overwrite files
// that were just copied in for the next one.
func (s *supervisor) restart() error {
	if err := s.killAll(); err != nil {
		return err
	}
	return s.startAfterKill()
}

// startAfterKill starts the main process and allows commands again.
func (s *supervisor) startAfterKill() error {
	if err := s.halt.err(); err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrTainted, err)
	}
	s.sessions.setQuiet(false)
	s.workers.reopen()
	if err := s.startMain(); err != nil {
		time.AfterFunc(startErrorLinger, s.exitStartFailed)
		return err
	}
	go s.workers.warmUp() // ends when the worker is started
	return nil
}

// killAll kills every process of the container except init and the bridges that
// carry sessions. It also kills the workers, so whatever a command has done to
// one ends here.
func (s *supervisor) killAll() error {
	s.waitsForStart = false
	s.main.set(shim.MainStopped, 0, nil)
	unfinished := s.runs.markLost()
	s.workers.closeAll()
	sweep := proctree.Sweeper{Targets: s.otherProcesses, IsGone: func(interval time.Duration) bool {
		return s.noOtherProcesses(interval) && allDone(unfinished, interval)
	}}
	if !sweep.Kill(shim.KillTimeout) {
		return fmt.Errorf("%w: processes survived SIGKILL", runtime.ErrTainted)
	}
	s.finishHalt()
	s.sessions.setQuiet(true)
	return nil
}

// allDone reports whether every run is done. It waits at most timeout.
func allDone(unfinished []*run, timeout time.Duration) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for _, r := range unfinished {
		select {
		case <-r.done:
		case <-timer.C:
			return false
		}
	}
	return true
}

// otherProcesses returns the processes to kill. In a container, they are all
// except init and the bridges; on a shared machine, all descendants of init.
func (s *supervisor) otherProcesses() ([]proctree.Process, error) {
	if s.config.HostProcess {
		return proctree.Descendants(os.Getpid())
	}
	all, err := proctree.Scan()
	if err != nil {
		return nil, err
	}
	bridges := s.sessions.bridges()
	return slices.DeleteFunc(all, func(p proctree.Process) bool {
		return p.Zombie || p.PID == os.Getpid() || bridges[p.ID]
	}), nil
}

// noOtherProcesses reports whether no other process is left. It waits at most
// timeout. The kernel confirms that init has no children; a container may also
// contain processes that the engine has started.
func (s *supervisor) noOtherProcesses(timeout time.Duration) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for !s.reaper.reapAll() {
		select {
		case <-s.reaper.reaped:
		case <-timer.C:
			return false
		}
	}
	if s.config.HostProcess {
		return true
	}
	others, err := s.otherProcesses()
	if err == nil && len(others) == 0 {
		return true
	}
	<-timer.C
	return false
}
