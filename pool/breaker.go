package pool

import (
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

// stableAfter is how long no container may exit until the pool counts as stable.
// It is longer than maxBackoff; otherwise the failures would never add up.
const stableAfter = 2 * maxBackoff

// engineRetries is how work on the engine is retried, and storeRetries is how
// reads and writes of records are.
var (
	engineRetries = backoff.Policy{Min: minBackoff, Max: maxBackoff, Jitter: jitter}
	storeRetries  = backoff.Policy{Min: minBackoff, Max: minBackoff, Jitter: jitter}
)

// Breaker is the recent failures to create containers of a workload's revision.
// It is on record, so that it survives a restart and every server shows it.
type Breaker struct {
	Workload  string
	Revision  string
	Failures  int // consecutive
	LastError string
	// LastErrorChain is what was being done when it occurred, outermost first.
	LastErrorChain []string
	LastContainer  string // whose creation that was
	LastErrorAt    time.Time
	RetryAt        time.Time
	// CrashLooping reports whether a container was created and exited soon
	// afterwards: creating another proves nothing until that one is stable.
	CrashLooping bool
}

// of returns the breaker of a revision. A new one has no failures.
func (b Breaker) of(revision string) Breaker {
	if b.Revision != revision {
		return Breaker{Workload: b.Workload, Revision: revision}
	}
	return b
}

// isOpen reports whether no container is to be created at now. A time that is too
// far in the future was recorded before the clock was set back.
func (b Breaker) isOpen(now time.Time) bool {
	return b.Failures > 0 && b.RetryAt.After(now) && b.RetryAt.Before(now.Add(2*maxBackoff))
}

// recordFailure counts a failure and sets the time of the next attempt. It
// ignores and returns false for a failure of another revision, whose containers
// may take long to fail.
func (b *Breaker) recordFailure(now time.Time, revision string, f failure, crashLooping bool) bool {
	if b.Revision != revision {
		return false
	}
	b.CrashLooping, b.LastError, b.LastErrorAt = b.CrashLooping || crashLooping, f.reason, now
	b.LastErrorChain, b.LastContainer = f.chain, f.container
	// Containers that were started together fail together: that is one failure.
	if b.isOpen(now) {
		return true
	}
	b.Failures++
	b.RetryAt = now.Add(engineRetries.Delay(b.Failures))
	return true
}

// recoversAt returns when the failures no longer count although no other
// container was created: a workload that was crash-looping is stable if no
// container exits. It is zero if there is no such time. A failure that is too far
// in the future was recorded before the clock was set back.
func (b Breaker) recoversAt(now time.Time) time.Time {
	if b.Failures == 0 || !b.CrashLooping {
		return time.Time{}
	}
	if b.LastErrorAt.After(now.Add(stableAfter)) {
		return now
	}
	return b.LastErrorAt.Add(stableAfter)
}

// Fill returns the fill status of a pool with this breaker: of its current revision,
// and with so many containers being created.
func (b Breaker) Fill(revision string, creating int, draining bool) FillStatus {
	return b.of(revision).status(creating, draining)
}

// status returns the fill status, given the number of containers being created.
func (b Breaker) status(creating int, stopped bool) FillStatus {
	s := FillStatus{State: FillIdle, Failures: b.Failures, LastError: b.LastError, LastErrorChain: b.LastErrorChain, LastContainer: b.LastContainer}
	switch {
	case stopped:
		s.State = FillDraining
	case b.Failures >= failingThreshold:
		s.State = FillFailing
	case b.Failures > 0:
		s.State = BackingOff
	case creating > 0:
		s.State = Filling
	}
	if b.Failures > 0 {
		next, at := b.RetryAt, b.LastErrorAt
		s.NextTry, s.LastErrorAt = &next, &at
	}
	return s
}
