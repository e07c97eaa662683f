package pool

import (
	"math/rand/v2"
	"sync"
	"time"
)

// How a workload whose containers cannot be made is tried again.
const (
	minBackoff       = time.Second // after the first failure; doubled by each
	maxBackoff       = time.Minute // at most
	failingThreshold = 5           // in a row: the pool is failing
	jitter           = 0.2         // of a pause, so that pools do not act in step
	halfOpenProbes   = 1           // containers tried at once after a failure
)

// breakers remembers, for each workload, what went wrong with its current
// revision. It is memory only: a restarted server tries anew.
type breakers struct {
	mu         sync.Mutex // guards of
	byWorkload map[string]*breaker
}

type breaker struct {
	revision    string
	failures    int
	lastError   string
	lastErrorAt time.Time
	retryAt     time.Time
	// crashLooping says that the last one could be made and did not live: another
	// that can be made proves nothing until it has lived for a while.
	crashLooping bool
}

func newBreakers() *breakers { return &breakers{byWorkload: map[string]*breaker{}} }

// get returns a copy of the workload's breaker. A changed spec has a clean one.
func (b *breakers) get(workload, revision string) breaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.byWorkload[workload]; k != nil && k.revision == revision {
		return *k
	}
	return breaker{revision: revision}
}

// recordFailure counts a failure and sets when to try again.
func (b *breakers) recordFailure(workload, revision string, err error, crashLooping bool) breaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.byWorkload[workload]
	if k == nil || k.revision != revision {
		k = &breaker{revision: revision}
		b.byWorkload[workload] = k
	}
	now := time.Now()
	k.crashLooping = crashLooping
	// Containers that were begun together fail together: that is one failure.
	if now.Before(k.retryAt) {
		k.lastError, k.lastErrorAt = err.Error(), now
		return *k
	}
	k.failures++
	k.lastError, k.lastErrorAt = err.Error(), now
	backoff := min(minBackoff<<min(k.failures-1, 16), maxBackoff)
	k.retryAt = now.Add(time.Duration(float64(backoff) * (1 + jitter*(2*rand.Float64()-1))))
	return *k
}

// recordSuccess forgets the failures and returns what they were, unless what was
// made has yet to live.
func (b *breakers) recordSuccess(workload string) breaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.byWorkload[workload]
	if k == nil || k.crashLooping {
		return breaker{}
	}
	delete(b.byWorkload, workload)
	return *k
}

// apply takes over what another server, which keeps the pools, has met.
func (b *breakers) apply(workload string, k breaker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k.failures == 0 {
		delete(b.byWorkload, workload)
		return
	}
	b.byWorkload[workload] = &k
}

// stableAfter is how long nothing must perish for the pool to be well again. It
// is longer than the longest pause, or the failures would never add up.
const stableAfter = 2 * maxBackoff

// reset forgets the failures of containers that perished when none has for
// long enough, and returns what they were; else it says when that will be,
// zero when there is nothing to forget.
func (b *breakers) reset(workload string) (breaker, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.byWorkload[workload]
	if k == nil || !k.crashLooping {
		return breaker{}, time.Time{}
	}
	if at := k.lastErrorAt.Add(stableAfter); time.Now().Before(at) {
		return breaker{}, at
	}
	delete(b.byWorkload, workload)
	return *k, time.Time{}
}

// status is how an operator sees it, given how many containers are being made.
func (k breaker) status(creating int, stopped bool) FillStatus {
	s := FillStatus{State: FillIdle, Failures: k.failures, LastError: k.lastError}
	switch {
	case stopped:
		s.State = FillDraining
	case k.failures >= failingThreshold:
		s.State = FillFailing
	case k.failures > 0:
		s.State = BackingOff
	case creating > 0:
		s.State = Filling
	}
	if k.failures > 0 {
		next, at := k.retryAt, k.lastErrorAt
		s.NextTry, s.LastErrorAt = &next, &at
	}
	return s
}
