package pool

import (
	"context"
	"errors"
	"time"

	"github.com/hostler/hostler/internal/workqueue"
	"github.com/hostler/hostler/runtime"
)

// check checks a container that is due, and schedules its next check.
func (c *HealthChecker) check(ctx context.Context, t *workqueue.Task[containerKey]) error {
	if c.isDue(t.Key.id) {
		c.probe(ctx, t.Key.id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.watched[t.Key.id]; k != nil {
		c.schedule(t.Key.id, k)
	}
	return nil
}

// isDue reports whether the check of a watched container is due. Its time can
// have been postponed since it was scheduled.
func (c *HealthChecker) isDue(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.watched[id]
	return k != nil && !k.nextCheck.After(time.Now())
}

// probe checks one container and handles the result.
func (c *HealthChecker) probe(ctx context.Context, id string) {
	k, ok := c.readRecord(ctx, id)
	if !ok {
		return
	}
	checkErr := c.runCheck(ctx, k.w.Healthcheck, id)
	if ctx.Err() != nil || isInconclusive(checkErr) {
		c.recordResult(id, nil, true)
		return
	}
	if checkErr == nil && !k.isUnhealthy && c.recordPass(id, k.known) {
		return
	}
	// A container that changed its state in the meantime was being wiped or
	// restarted: the result is meaningless.
	after, err := c.store.Container(ctx, id)
	if err != nil || !after.ChangedAt.Equal(k.known) {
		c.forgetRecord(id)
		c.recordResult(id, nil, true)
		return
	}
	failed := c.recordResult(id, checkErr, false)
	c.forgetRecord(id)
	if err := c.applyResult(ctx, after, k.w, checkErr, failed); err != nil && !isConflict(err) {
		c.log.Error("recording container health failed", "container", id, "error", err)
	}
}

// readRecord returns what is watched of a container, with its record read, unless no
// event has reported a change of it since it was read.
func (c *HealthChecker) readRecord(ctx context.Context, id string) (watchedContainer, bool) {
	c.mu.Lock()
	k := c.watched[id]
	if k == nil || !k.known.IsZero() {
		defer c.mu.Unlock()
		if k == nil {
			return watchedContainer{}, false
		}
		return *k, true
	}
	c.mu.Unlock()
	before, err := c.store.Container(ctx, id)
	if errors.Is(err, ErrContainerNotFound) || before.State == Destroying || before.State == Destroyed {
		// It was destroyed before it was watched: nothing else calls Forget.
		c.Forget(id)
		return watchedContainer{}, false
	}
	if err != nil || (before.State != Idle && before.State != Claimed) {
		c.recordResult(id, nil, true)
		return watchedContainer{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k = c.watched[id]; k == nil {
		return watchedContainer{}, false
	}
	k.known, k.isUnhealthy = before.ChangedAt, before.Health == Unhealthy
	return *k, true
}

// forgetRecord has the record read before the next check.
func (c *HealthChecker) forgetRecord(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.watched[id]; k != nil {
		k.known = time.Time{}
	}
}

// forgetRecords has every record read before the next check: events were missed.
func (c *HealthChecker) forgetRecords() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.watched {
		k.known = time.Time{}
	}
}

// recordPass records that a check has passed, and reports whether it did: not if an
// event has reported a change of the container since the check began.
func (c *HealthChecker) recordPass(id string, known time.Time) bool {
	c.mu.Lock()
	k := c.watched[id]
	isKnown := k != nil && k.known.Equal(known)
	c.mu.Unlock()
	if isKnown {
		c.recordResult(id, nil, false)
	}
	return isKnown
}

// isInconclusive reports whether a check with this error did not run: the engine
// was unavailable, or nothing ran in the container. In the second case, the
// watcher reports the exit, or a release has stopped the processes.
func isInconclusive(err error) bool {
	return errors.Is(err, runtime.ErrUnavailable) || errors.Is(err, runtime.ErrNotRunning) || errors.Is(err, runtime.ErrContainerExited)
}

// recordResult ends a check and returns the number of consecutive failures.
func (c *HealthChecker) recordResult(id string, err error, inconclusive bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.watched[id]
	if k == nil {
		return 0
	}
	now := time.Now()
	k.nextCheck = now.Add(k.w.Healthcheck.Interval)
	switch {
	case inconclusive:
	case err == nil:
		k.failures, k.lastHealthy = 0, now
	case now.Before(k.graceUntil):
		k.nextCheck = now.Add(min(maxProbeInterval, k.w.Healthcheck.Interval))
	default:
		k.failures++
	}
	return k.failures
}
