package pool

import (
	"sync"
	"time"

	"github.com/hostler/hostler/internal/backoff"
)

// How creation is retried for a workload whose containers cannot be created.
const (
	minBackoff       = time.Second // after the first failure; each failure doubles it
	maxBackoff       = time.Minute
	failingThreshold = 5 // consecutive failures until the pool is failing
	jitter           = 0.2
	halfOpenProbes   = 1 // containers created concurrently after a failure
)

// engineRetries is how work on the engine is retried, and storeRetries is how
// reads and writes of records are.
var (
	engineRetries = backoff.Policy{Min: minBackoff, Max: maxBackoff, Jitter: jitter}
	storeRetries  = backoff.Policy{Min: minBackoff, Max: minBackoff, Jitter: jitter}
)

// breakers has the recent failures of each workload's current revision. It is
// in memory only: a restarted server starts without failures.
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
	// crashLooping reports whether the last container was created and exited soon
	// afterwards: creating another proves nothing until that one is stable.
	crashLooping bool
}

func newBreakers() *breakers { return &breakers{byWorkload: map[string]*breaker{}} }

// get returns a copy of the workload's breaker. A new revision has no failures.
func (b *breakers) get(workload, revision string) breaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.byWorkload[workload]; k != nil && k.revision == revision {
		return *k
	}
	return breaker{revision: revision}
}

// recordFailure counts a failure and sets the time of the next attempt.
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
	// Containers that were started together fail together: that is one failure.
	if now.Before(k.retryAt) {
		k.lastError, k.lastErrorAt = err.Error(), now
		return *k
	}
	k.failures++
	k.lastError, k.lastErrorAt = err.Error(), now
	k.retryAt = now.Add(engineRetries.Delay(k.failures))
	return *k
}

// recordSuccess resets the breaker and returns its previous state. While the
// workload is crash-looping it does nothing.
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

// apply stores the breaker state that the leader has published.
func (b *breakers) apply(workload string, k breaker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k.failures == 0 {
		delete(b.byWorkload, workload)
		return
	}
	b.byWorkload[workload] = &k
}

// stableAfter is how long no container may exit until the pool counts as stable.
// It is longer than maxBackoff; otherwise the failures would never add up.
const stableAfter = 2 * maxBackoff

// reset clears the failures of a crash-looping workload if no container has
// exited for stableAfter, and returns the previous state. Otherwise it returns
// the time when it may clear them, zero if there is nothing to clear.
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

// status returns the fill status, given the number of containers being created.
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
