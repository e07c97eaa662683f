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

// changes are the requests that concern the container as a whole.
var changes = map[shim.Op]func(s *supervisor, paths []string) error{
	shim.OpRestart: (*supervisor).restart,
	shim.OpBegin:   (*supervisor).beginMain,
	shim.OpStop:    (*supervisor).stop,
	shim.OpRaise:   func(*supervisor, []string) error { return nil },
	shim.OpSeal:    (*supervisor).sealFiles,
	shim.OpWipe:    (*supervisor).wipe,
}

// change does one change at a time. What carries a smaller fence than a change
// before is refused.
func (s *supervisor) change(r shim.Request) error {
	do, ok := changes[r.Op]
	if !ok {
		return fmt.Errorf("no change is called %q", r.Op)
	}
	s.changing <- struct{}{}
	defer func() { <-s.changing }()
	if r.Op != shim.OpBegin {
		if err := s.fence.admit(r.Fence); err != nil {
			return err
		}
	}
	return do(s, r.Paths)
}

// beginMain starts the main process unless there is one.
func (s *supervisor) beginMain([]string) error {
	if s.main.get() == shim.MainRunning {
		return nil
	}
	return s.restart(nil)
}

// restart ends every process and starts the main one anew. It does not ask
// them to end: what a main process saves when it is asked would go over the
// files that were put there for the next one.
func (s *supervisor) restart([]string) error {
	if err := s.endAll(); err != nil {
		return err
	}
	return s.startAgain()
}

// startAgain starts the main process and allows commands beside it.
func (s *supervisor) startAgain() error {
	s.workers.reopen()
	if err := s.startMain(); err != nil {
		time.AfterFunc(failedTold, s.exitFailed)
		return err
	}
	go s.workers.warmUp() // ends when the worker is started
	return nil
}

// stop ends every process.
func (s *supervisor) stop([]string) error { return s.endAll() }

// endAll ends every process of the container but init and the bridges that
// carry sessions. The workers go too: what a command may have done to one ends
// here.
func (s *supervisor) endAll() error {
	s.main.set(shim.MainStopped, 0, nil)
	under := s.runs.lose()
	s.workers.retire()
	sweep := proctree.Sweeper{Targets: s.others, Gone: func(pause time.Duration) bool {
		return s.alone(pause) && allOver(under, pause)
	}}
	if !sweep.Kill(shim.KillBound) {
		return fmt.Errorf("%w: processes outlive SIGKILL", runtime.ErrDoomed)
	}
	s.endHalt()
	return nil
}

// allOver says whether every run is, having waited for pause at most.
func allOver(under []*run, pause time.Duration) bool {
	limit := time.NewTimer(pause)
	defer limit.Stop()
	for _, r := range under {
		select {
		case <-r.done:
		case <-limit.C:
			return false
		}
	}
	return true
}

// others are the processes to be ended. In a container they are all but init
// and the bridges; on a shared machine, all below init.
func (s *supervisor) others() ([]proctree.Process, error) {
	if s.config.Shared {
		return proctree.Descendants(os.Getpid())
	}
	all, err := proctree.Scan()
	if err != nil {
		return nil, err
	}
	bridges := s.guests.bridges()
	return slices.DeleteFunc(all, func(p proctree.Process) bool {
		return p.Dead || p.PID == os.Getpid() || bridges[p.ID]
	}), nil
}

// alone says whether no other process is left, having waited for pause at most.
// That init has no child is the kernel's word; in a container there may be
// processes besides that the engine has put there.
func (s *supervisor) alone(pause time.Duration) bool {
	limit := time.NewTimer(pause)
	defer limit.Stop()
	for !s.reaper.reapAll() {
		select {
		case <-s.reaper.reaped:
		case <-limit.C:
			return false
		}
	}
	if s.config.Shared {
		return true
	}
	others, err := s.others()
	if err == nil && len(others) == 0 {
		return true
	}
	<-limit.C
	return false
}
