package pool

import (
	"context"
	"sync"
	"time"
)

// earlyExits are the first exits of idle containers soon after their creation.
// One such exit proves nothing about the workload: an operator or the engine may
// have removed the container. When its replacement exits as early, it does.
//
// They are in memory: a server that starts again replaces one more container
// without a delay.
type earlyExits struct {
	mu    sync.Mutex // guards first
	first map[string]earlyExit
}

type earlyExit struct {
	revision string
	at       time.Time
}

// earlyExitMemory is longer than the creation of a replacement takes.
const earlyExitMemory = time.Hour

// repeats reports whether the container that has exited was created after an
// earlier exit of its workload's revision, and soon after it. Otherwise it
// records this one. Containers that were created before that exit, and exit
// together with it, are one exit.
func (e *earlyExits) repeats(c Container, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, x := range e.first {
		if now.Sub(x.at) > earlyExitMemory || x.at.After(now) { // or the clock was set back
			delete(e.first, id)
		}
	}
	x, ok := e.first[c.Workload]
	if !ok || x.revision != c.Revision || c.CreatedAt.Sub(x.at) > stableAfter {
		if e.first == nil {
			e.first = map[string]earlyExit{}
		}
		e.first[c.Workload] = earlyExit{revision: c.Revision, at: now}
		return false
	}
	return !c.CreatedAt.Before(x.at)
}

// recordEarlyExit counts a failure if a container exited or became unhealthy
// soon after its creation, before its first claim, and so did the one before it: a
// program that exits at once is as broken as a missing image.
func (f *Filler) recordEarlyExit(ctx context.Context, c Container) {
	now := time.Now()
	if c.State != Idle || c.Tenant != "" || now.Sub(c.ChangedAt) >= stableAfter {
		return
	}
	if !f.exits.repeats(c, now) {
		b, err := f.store.Breaker(context.WithoutCancel(ctx), c.Workload)
		if err == nil && b.of(c.Revision).Failures == 0 {
			f.log.Info("idle container lost; replacing it", "workload", c.Workload, "container", c.ID, "reason", c.Reason)
			return
		}
	}
	f.recordFailure(ctx, c, failure{reason: c.Reason, chain: c.ReasonChain}, true)
}
