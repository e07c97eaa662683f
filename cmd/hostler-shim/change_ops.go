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
	shim.OpRestart:        func(s *supervisor, r shim.Request) error { return s.restart(r.Environment) },
	shim.OpStartMain:      func(s *supervisor, r shim.Request) error { return s.startMainFor(r.Fence, r.Environment) },
	shim.OpStop:           func(s *supervisor, _ shim.Request) error { return s.killAll() },
	shim.OpRecordBaseline: func(s *supervisor, _ shim.Request) error { return s.recordBaseline() },
	shim.OpWipe:           func(s *supervisor, r shim.Request) error { return s.wipe(r.Paths) },
}

// applyChange runs one change at a time. It refuses a request with a smaller
// fence than an earlier request had.
func (s *supervisor) applyChange(r shim.Request) error {
	apply, ok := changeOps[r.Op]
	if !ok {
		return fmt.Errorf("unknown change %q", r.Op)
	}
	s.changeSem <- struct{}{}
	defer func() { <-s.changeSem }()
	if err := s.admitChange(r.Fence); err != nil {
		s.limitStartWait(refusedStartWait)
		return err
	}
	s.limitStartWait(maxStartWait)
	// A stop starts nothing: the files can be saved then.
	if s.hasExited && r.Op != shim.OpStartMain && r.Op != shim.OpStop {
		return errWaitsForStart
	}
	return apply(s, r)
}

// restart kills every process and starts the main process again. It does not
// ask them to exit: what a main process saves when asked would overwrite files
// that were just copied in for the next one. The environment is that of the new
// main process, over the container's.
func (s *supervisor) restart(environment map[string]string) error {
	if err := s.killAll(); err != nil {
		return err
	}
	s.environment = environment
	return s.startAfterKill()
}

// startAfterKill starts the main process and allows commands again.
func (s *supervisor) startAfterKill() error {
	if err := s.halt.err(); err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrTainted, err)
	}
	s.hasExited, s.mainFence = false, s.fence.current
	s.sessions.setQuiet(false)
	s.workers.reopen()
	s.commands.reopen(s.environment)
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
	s.waitsForStart, s.environment = false, nil
	s.main.set(shim.MainStopped, 0, nil)
	unfinished := s.runs.markLost()
	commands := s.commands.markLost()
	s.kills.Add(1)
	s.workers.closeAll()
	sweep := proctree.Sweeper{Targets: s.otherProcesses, IsGone: func(interval time.Duration) bool {
		return s.noOtherProcesses(interval) && allDone(doneOf(unfinished, commands), interval)
	}}
	if !sweep.Kill(shim.KillTimeout) {
		return fmt.Errorf("%w: processes survived SIGKILL", runtime.ErrTainted)
	}
	s.askListener.closeAll()
	s.ports.closeAll()
	s.finishHalt()
	s.sessions.setQuiet(true)
	return nil
}

// doneOf returns the channels that are closed when these are over.
func doneOf(runs []*run, commands []*tenantCommand) (all []<-chan struct{}) {
	for _, r := range runs {
		all = append(all, r.done)
	}
	for _, c := range commands {
		all = append(all, c.done)
	}
	return all
}

// allDone reports whether every channel is closed. It waits at most timeout.
func allDone(channels []<-chan struct{}, timeout time.Duration) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for _, done := range channels {
		select {
		case <-done:
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
