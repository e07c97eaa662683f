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
var changeOps = map[shim.Op]func(s *supervisor, paths []string) error{
	shim.OpRestart:        (*supervisor).restart,
	shim.OpStartMain:      (*supervisor).startMainIfWaiting,
	shim.OpStop:           (*supervisor).stop,
	shim.OpRaiseFence:     func(*supervisor, []string) error { return nil },
	shim.OpRecordBaseline: (*supervisor).recordBaseline,
	shim.OpWipe:           (*supervisor).wipe,
}

// applyChange runs one change at a time. It refuses a request with a smaller
// fence than an earlier change had.
func (s *supervisor) applyChange(r shim.Request) error {
	apply, ok := changeOps[r.Op]
	if !ok {
		return fmt.Errorf("unknown change %q", r.Op)
	}
	s.changeSem <- struct{}{}
	defer func() { <-s.changeSem }()
	if r.Op != shim.OpStartMain {
		if err := s.fence.admit(r.Fence); err != nil {
			return err
		}
	}
	return apply(s, r.Paths)
}

// startMainIfWaiting starts the main process if no request has changed the
// container since init was started. The request has no fence and may be late, so
// it must not undo a stop or a wipe.
func (s *supervisor) startMainIfWaiting([]string) error {
	startErr := s.main.startError()
	switch {
	case s.waitsForStart:
		return s.restart(nil)
	case s.main.get() == shim.MainRunning:
		return nil
	case startErr != nil:
		return startErr.Err() // an earlier response was lost
	}
	return fmt.Errorf("%w: the container was stopped since it was started", runtime.ErrStaleFence)
}

// restart kills every process and starts the main process again. It does not
// ask them to exit: what a main process saves when asked would overwrite files
// that were just copied in for the next one.
func (s *supervisor) restart([]string) error {
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

// stop kills every process.
func (s *supervisor) stop([]string) error { return s.killAll() }

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
