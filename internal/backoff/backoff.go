// Package backoff has the waits between retries.
//
// It promises that a wait doubles with each failure up to a limit, without
// overflow, and that waits with jitter differ between servers that failed
// together. What to retry, and for how long, is left to the caller.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Policy is how long to wait before each retry.
type Policy struct {
	Min time.Duration // after the first failure; each failure doubles it
	Max time.Duration // the limit, before jitter
	// Jitter is the fraction of a wait by which it is shorter or longer at random,
	// so that those who failed together do not retry in step.
	Jitter float64
	// Rand returns a number in [0, 1); nil is a random one.
	Rand func() float64
}

// Delay returns the wait after that many consecutive failures.
func (p Policy) Delay(failures int) time.Duration {
	wait := min(p.Min, p.Max)
	for ; failures > 1 && 0 < wait && wait < p.Max; failures-- {
		wait += min(wait, p.Max-wait)
	}
	if p.Jitter == 0 {
		return wait
	}
	random := p.Rand
	if random == nil {
		random = rand.Float64
	}
	return time.Duration(float64(wait) * (1 + p.Jitter*(2*random()-1)))
}

// Retries returns the waits of one loop of retries. It is for one goroutine.
func (p Policy) Retries() *Retries { return &Retries{policy: p} }

// Retries counts the consecutive failures of a loop.
type Retries struct {
	policy   Policy
	failures int
}

// Next counts a failure and returns the wait before the next attempt.
func (r *Retries) Next() time.Duration {
	r.failures++
	return r.policy.Delay(r.failures)
}

// Reset is called after a success: the next wait is the first again.
func (r *Retries) Reset() { r.failures = 0 }

// Sleep counts a failure and waits before the next attempt. It returns the
// context's cause if ctx ends first.
func (r *Retries) Sleep(ctx context.Context) error {
	t := time.NewTimer(r.Next())
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
