package proctree

import (
	"time"

	"golang.org/x/sys/unix"
)

// maxSweepPasses bounds one round of stopping. The next round continues with
// processes that fork faster than this one can stop them.
const maxSweepPasses = 100

// minSweeps is how often processes are killed and looked for before they count as not
// gone: a machine that stalls may leave them no other time to exit.
const minSweeps = 10

// Sweeper kills all processes of a changing set.
type Sweeper struct {
	// Targets returns the processes to kill, as far as they are visible now.
	Targets func() ([]Process, error)
	// IsGone reports whether no process is left. It may wait for as long as
	// pause.
	IsGone func(pause time.Duration) bool
}

// Kill first stops every target, so that none can fork while the others are
// killed, and then kills them. It repeats that until they are gone, or timeout
// has passed and it has tried minSweeps times. It reports whether they are gone.
func (s Sweeper) Kill(timeout time.Duration) bool {
	deadline := time.Now().Add(timeout)
	interval := time.Millisecond
	for sweeps := 1; ; sweeps++ {
		for _, p := range s.stopAll() {
			p.Signal(unix.SIGKILL)
		}
		if s.IsGone(interval) {
			return true
		}
		if sweeps >= minSweeps && time.Now().After(deadline) {
			return false
		}
		interval = min(2*interval, 50*time.Millisecond)
	}
}

// stopAll sends SIGSTOP until a pass finds no new process, and returns what the
// last pass found.
func (s Sweeper) stopAll() (all []Process) {
	seen := make(map[ID]bool)
	for range maxSweepPasses {
		var err error
		if all, err = s.Targets(); err != nil {
			return nil // Kill retries until its deadline
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

// KillDescendants kills all descendants of top and reports whether they are
// gone.
func KillDescendants(top int, timeout time.Duration) bool {
	return Kill(timeout, func() ([]Process, error) {
		all, err := Scan()
		return FilterDescendants(all, top), err
	})
}

// Kill kills the processes that targets returns and reports whether they are
// gone.
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
