package proctree

import (
	"time"

	"golang.org/x/sys/unix"
)

// maxSweepPasses bounds one round of stopping: a storm of forks that is faster
// than us is met again in the next round.
const maxSweepPasses = 100

// Sweeper kills a changing set of processes, all of them.
type Sweeper struct {
	// Targets lists who must go, as far as it can be seen now.
	Targets func() ([]Process, error)
	// IsGone says, or finds out, that nothing is left. It may wait for as long
	// as pause.
	IsGone func(pause time.Duration) bool
}

// Kill stops every target first, so that none can fork while the others are
// killed, and kills them then; again until they are gone or bound has passed.
func (s Sweeper) Kill(timeout time.Duration) bool {
	deadline := time.Now().Add(timeout)
	for interval := time.Millisecond; ; interval = min(2*interval, 50*time.Millisecond) {
		for _, p := range s.stopAll() {
			p.Signal(unix.SIGKILL)
		}
		if s.IsGone(interval) {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// stopAll sends SIGSTOP until a look finds nobody new, and gives what the last
// look found.
func (s Sweeper) stopAll() (all []Process) {
	seen := make(map[ID]bool)
	for range maxSweepPasses {
		var err error
		if all, err = s.Targets(); err != nil {
			return nil // Kill goes on until it is out of time
		}
		added := 0
		for _, p := range all {
			if seen[p.ID] {
				continue
			}
			seen[p.ID] = true
			added++
			p.Signal(unix.SIGSTOP)
		}
		if added == 0 {
			break
		}
	}
	return all
}

// KillDescendants kills all that descends from top, and says whether it is gone.
func KillDescendants(top int, timeout time.Duration) bool {
	return Kill(timeout, func() ([]Process, error) {
		all, err := Scan()
		return FilterDescendants(all, top), err
	})
}

// Kill kills what targets lists, and says whether it is gone.
func Kill(timeout time.Duration, targets func() ([]Process, error)) bool {
	s := Sweeper{Targets: targets, IsGone: func(interval time.Duration) bool {
		left, err := targets()
		if err == nil && len(left) > 0 {
			<-time.After(interval)
		}
		return err == nil && len(left) == 0
	}}
	return s.Kill(timeout)
}
