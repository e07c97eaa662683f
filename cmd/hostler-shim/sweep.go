package main

import (
	"time"

	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// sweepPasses bounds one round of stopping: a storm of forks that is faster
// than us is met again in the next round.
const sweepPasses = 100

// sweeper kills a changing set of processes, all of them.
type sweeper struct {
	// targets lists who must go, as far as it can be seen now.
	targets func() ([]process, error)
	// gone says, or finds out, that nothing is left. It may wait for as long
	// as pause.
	gone func(pause time.Duration) bool
}

// kill stops every target first, so that none can fork while the others are
// killed, and kills them then; again until they are gone or bound has passed.
func (s sweeper) kill(bound time.Duration) bool {
	deadline := time.Now().Add(bound)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		s.stopAll()
		all, err := s.targets()
		if err != nil {
			complain("kill", err)
		}
		for _, p := range all {
			p.signal(unix.SIGKILL)
		}
		if s.gone(pause) {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// stopAll sends SIGSTOP until a look finds nobody new.
func (s sweeper) stopAll() {
	seen := make(map[processID]bool)
	for range sweepPasses {
		all, err := s.targets()
		if err != nil {
			return // kill says so
		}
		fresh := 0
		for _, p := range all {
			if seen[p.id()] {
				continue
			}
			seen[p.id()] = true
			fresh++
			p.signal(unix.SIGSTOP)
		}
		if fresh == 0 {
			return
		}
	}
}

// killBelow is the last thing that a worker or init does.
func killBelow(top int) bool {
	targets := func() ([]process, error) {
		all, err := scan()
		return below(all, top), err
	}
	s := sweeper{targets: targets, gone: func(pause time.Duration) bool {
		left, err := targets()
		if err == nil && len(left) > 0 {
			<-time.After(pause)
		}
		return err == nil && len(left) == 0
	}}
	return s.kill(shim.KillBound)
}
