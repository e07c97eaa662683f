package main

import (
	"fmt"
	"os"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
)

// changes are the requests that concern the container as a whole.
var changes = map[shim.Op]func(s *supervisor, paths []string) error{
	shim.OpRestart: (*supervisor).restart,
	shim.OpStop:    (*supervisor).stop,
	shim.OpSeal:    (*supervisor).sealFiles,
	shim.OpWipe:    (*supervisor).wipe,
}

// change does one change at a time.
func (s *supervisor) change(do func() error) error {
	s.changing <- struct{}{}
	defer func() { <-s.changing }()
	return do()
}

// restart ends every process and starts the main one anew. It does not ask
// them to end: what a main process saves when it is asked would go over the
// files that were put there for the next one.
func (s *supervisor) restart([]string) error {
	if err := s.endAll(); err != nil {
		return err
	}
	if err := s.startMain(); err != nil {
		time.AfterFunc(failedTold, s.exitFailed)
		return err
	}
	go s.workers.warmUp() // ends when the worker is started
	return nil
}

// stop ends every process.
func (s *supervisor) stop([]string) error { return s.endAll() }

// endAll ends every process of the container but init, the workers, and the
// bridges that carry sessions.
func (s *supervisor) endAll() error {
	s.main.set(shim.MainStopped, 0, nil)
	under := s.runs.lose()
	sweep := proctree.Sweeper{Targets: s.strangers, Gone: func(pause time.Duration) bool {
		return s.noStrangers(pause) && allOver(under, pause)
	}}
	if !sweep.Kill(shim.KillBound) {
		return fmt.Errorf("%w: processes outlive SIGKILL", runtime.ErrDoomed)
	}
	// What a command may have done to an idle worker ends here.
	s.workers.retire()
	if !sweep.Kill(shim.KillBound) {
		return fmt.Errorf("%w: a worker outlives SIGKILL", runtime.ErrDoomed)
	}
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

// strangers are the processes that are not part of this program. In a
// container they are all others; on a shared machine, all below this one.
func (s *supervisor) strangers() ([]proctree.Process, error) {
	all, err := proctree.Scan()
	if err != nil {
		return nil, err
	}
	if s.config.Shared {
		all = proctree.Below(all, os.Getpid())
	}
	workers, bridges := s.workers.living(), s.guests.bridges()
	var others []proctree.Process
	for _, p := range all {
		if !p.Dead && p.PID != os.Getpid() && !workers[p.ID] && !bridges[p.ID] {
			others = append(others, p)
		}
	}
	return others, nil
}

func (s *supervisor) noStrangers(pause time.Duration) bool {
	others, err := s.strangers()
	if err == nil && len(others) == 0 {
		return true
	}
	<-time.After(pause)
	return false
}
