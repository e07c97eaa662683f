package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// listDue adds the idle claims and the failed releases that are due, and returns
// when the next one is.
func (s *Scheduler) listDue(ctx context.Context) (time.Time, error) {
	next, err := s.listIdle(ctx)
	nextRetry, retryErr := s.listRetries(ctx)
	return earliest(next, nextRetry), errors.Join(err, retryErr)
}

// listIdle adds the idle claims of all pools, and returns when to list again. The end
// of a wait is activity, and wakes the loop.
func (s *Scheduler) listIdle(ctx context.Context) (time.Time, error) {
	now := time.Now()
	records, err := s.pools.Workloads(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("list the workloads: %w", err)
	}
	s.window.record(now)
	idle, next, err := s.listActive(ctx, records, &s.shortestTTL, idleTTL, func(c claim.Claim, ttl time.Duration) (at, lookAt time.Time) {
		if c.Waits > 0 {
			return time.Time{}, time.Time{}
		}
		at = s.window.releaseAt(s.claims.LastSeen(c).Add(ttl), ttl)
		return at, s.window.observeAt(now, at)
	})
	for _, c := range idle {
		s.due.add(c)
		next = earliest(next, now.Add(minGrace)) // its tenant is observed while it waits for a slot
	}
	return next, err
}

// idleTTL is the claim_idle_ttl of a workload's pool.
func idleTTL(w *workload.Workload) time.Duration { return w.Pool.ClaimIdleTTL }

// releaseDue releases a claim that is still due: it is idle, or its release has
// failed.
func (s *Scheduler) releaseDue(ctx context.Context, id string) (next time.Time, err error) {
	now := time.Now()
	c, err := s.store.Claim(ctx, id)
	if err != nil {
		return next, s.releaseResult(ctx, id, err)
	}
	switch c.State {
	case claim.Active:
		next, err = s.releaseIfIdle(ctx, c, now)
	case claim.ReleaseFailed:
		next, err = s.retry(ctx, c, now)
	}
	return next, s.releaseResult(ctx, id, err)
}

// releaseIfIdle releases a claim, unless its tenant has become active: then it returns
// when to list the claims again.
func (s *Scheduler) releaseIfIdle(ctx context.Context, c claim.Claim, now time.Time) (next time.Time, err error) {
	w, err := s.current(ctx, c.Workload)
	if err != nil {
		return next, err
	}
	ttl := idleTTL(w)
	s.window.record(now)
	if ttl <= 0 || c.Waits > 0 {
		return next, nil
	}
	next = now.Add(coalesceDelay) // if it is not released below
	if s.window.releaseAt(s.claims.LastSeen(c).Add(ttl), ttl).After(now) {
		return next, nil
	}
	if changed, err := s.stateChangedSince(ctx, c, now.Add(-ttl)); changed || err != nil {
		return next, err
	}
	// The tenant may have been active in the meantime: the release may have
	// waited for a slot, and the scan may have recorded activity.
	idle := func(c claim.Claim) bool {
		return c.State == claim.Active && c.Waits == 0 && !s.claims.LastSeen(c).Add(ttl).After(now)
	}
	c, err = s.store.Claim(ctx, c.ID)
	if err != nil || !idle(c) {
		return next, err
	}
	_, err = s.releases.Release(ctx, c.ID, release.Request{Reason: "tenant idle for " + ttl.String(), OnlyIf: idle})
	if err == nil {
		next = time.Time{}
	}
	return next, err
}

// stateChangedSince reports whether the tenant's state has changed since the
// given time, and records the time of the change. A state that takes too long
// to scan counts as changed now.
func (s *Scheduler) stateChangedSince(ctx context.Context, c claim.Claim, since time.Time) (bool, error) {
	w, _, err := s.pools.Catalog.Revision(ctx, c.Workload, c.Revision)
	if err != nil || len(w.StateDirs()) == 0 {
		return false, err
	}
	at, err := s.rt.LastModified(ctx, c.Container, w.StateDirs())
	if isContainerEnded(err) {
		return false, nil
	}
	if errors.Is(err, runtime.ErrScanIncomplete) {
		s.log.Warn("tenant has too many files to scan; treating it as active", "claim", c.ID, "error", err)
		at, err = time.Now(), nil
	}
	if err != nil {
		return false, fmt.Errorf("check whether the tenant of claim %s is idle: %w", c.ID, err)
	}
	if !at.After(since) {
		return false, nil
	}
	if now := time.Now(); at.After(now) {
		at = now // the container's clock is ahead
	}
	_, err = s.store.UpdateClaim(ctx, claim.Note(c.ID, func(c *claim.Claim) {
		if at.After(c.LastActive()) { // the tenant may have claimed or touched it since
			c.TouchedAt = &at
		}
	}, claim.Active))
	if errors.Is(err, pool.ErrConflict) {
		err = nil // it has ended in the meantime
	}
	return true, err
}

// isContainerEnded reports whether the error is of a container in which its
// tenant can no longer be active. No other error makes a tenant idle, because
// it does not show what the tenant does.
func isContainerEnded(err error) bool {
	return errors.Is(err, runtime.ErrNotFound) || errors.Is(err, runtime.ErrNotRunning) ||
		errors.Is(err, runtime.ErrContainerExited) || errors.Is(err, runtime.ErrTainted)
}
