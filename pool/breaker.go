package pool

import (
	"math/rand/v2"
	"sync"
	"time"
)

// How a workload whose containers cannot be made is tried again.
const (
	firstPause   = time.Second // after the first failure; doubled by each
	longestPause = time.Minute // at most
	manyFailures = 5           // in a row: the pool is failing
	jitter       = 0.2         // of a pause, so that pools do not act in step
	probe        = 1           // containers tried at once after a failure
)

// breakers remembers, for each workload, what went wrong with its current
// revision. It is memory only: a restarted server tries anew.
type breakers struct {
	mu sync.Mutex // guards of
	of map[string]*breaker
}

type breaker struct {
	revision string
	failures int
	last     string
	lastAt   time.Time
	next     time.Time
	// perished says that the last one could be made and did not live: another
	// that can be made proves nothing until it has lived for a while.
	perished bool
}

func newBreakers() *breakers { return &breakers{of: map[string]*breaker{}} }

// get returns a copy of the workload's breaker. A changed spec has a clean one.
func (b *breakers) get(workload, revision string) breaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.of[workload]; k != nil && k.revision == revision {
		return *k
	}
	return breaker{revision: revision}
}

// fail counts a failure and sets when to try again.
func (b *breakers) fail(workload, revision string, err error, perished bool) breaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.of[workload]
	if k == nil || k.revision != revision {
		k = &breaker{revision: revision}
		b.of[workload] = k
	}
	now := time.Now()
	k.perished = perished
	// Containers that were begun together fail together: that is one failure.
	if now.Before(k.next) {
		k.last, k.lastAt = err.Error(), now
		return *k
	}
	k.failures++
	k.last, k.lastAt = err.Error(), now
	pause := min(firstPause<<min(k.failures-1, 16), longestPause)
	k.next = now.Add(time.Duration(float64(pause) * (1 + jitter*(2*rand.Float64()-1))))
	return *k
}

// succeed forgets the failures and returns what they were, unless what was
// made has yet to live.
func (b *breakers) succeed(workload string) breaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.of[workload]
	if k == nil || k.perished {
		return breaker{}
	}
	delete(b.of, workload)
	return *k
}

// learn takes over what another server, which keeps the pools, has met.
func (b *breakers) learn(workload string, k breaker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k.failures == 0 {
		delete(b.of, workload)
		return
	}
	b.of[workload] = &k
}

// survival is how long nothing must perish for the pool to be well again. It
// is longer than the longest pause, or the failures would never add up.
const survival = 2 * longestPause

// expire forgets the failures of containers that perished when none has for
// long enough, and returns what they were; else it says when that will be,
// zero when there is nothing to forget.
func (b *breakers) expire(workload string) (breaker, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.of[workload]
	if k == nil || !k.perished {
		return breaker{}, time.Time{}
	}
	if at := k.lastAt.Add(survival); time.Now().Before(at) {
		return breaker{}, at
	}
	delete(b.of, workload)
	return *k, time.Time{}
}

// status is how an operator sees it, given how many containers are being made.
func (k breaker) status(creating int, stopped bool) FillStatus {
	s := FillStatus{State: FillIdle, Failures: k.failures, LastError: k.last}
	switch {
	case stopped:
		s.State = FillStopped
	case k.failures >= manyFailures:
		s.State = FillFailing
	case k.failures > 0:
		s.State = BackingOff
	case creating > 0:
		s.State = Filling
	}
	if k.failures > 0 {
		next, at := k.next, k.lastAt
		s.NextTry, s.LastErrorAt = &next, &at
	}
	return s
}
