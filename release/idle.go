package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

// The waits of the loops: after an error, and at most between two polls for
// idle claims, because a workload can be applied at any time.
const (
	minBackoff      = time.Second
	maxBackoff      = time.Minute
	maxPollInterval = 30 * time.Second
	// When a thousand claims end together, one poll serves many ends.
	coalesceDelay = 100 * time.Millisecond
)

// The limits of concurrent releases: resumed ones, and idle ones together with
// retries of failed ones. One workload gets at most half of each.
const (
	parallelReleases     = 32
	parallelIdleReleases = 16
)

// Run releases claims whose tenants have been idle for the claim_idle_ttl of
// their pool, retries failed releases, and uploads the state of claims at their
// workloads' intervals, until ctx ends. One server is enough for it. These
// count as activity: the claim becoming active, a repeated claim by the tenant,
// Touch, and a change of the files of the tenant's state. Other processes in
// the container and reads of the claim do not count: they are not evidence of
// the tenant.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.runReleases(ctx) })
	g.Go(func() error { return s.runPeriodicUploads(ctx) })
	return g.Wait()
}

func (s *Service) runReleases(ctx context.Context) error {
	tasks := newKeyedTasks(parallelIdleReleases)
	defer tasks.wait()
	var window activityWindow
	return s.pollLoop(ctx, tasks, s.retrySignal, func() (time.Time, error) { return s.startDue(ctx, tasks, &window) })
}

// pollLoop calls poll until ctx ends: at the time that poll returns, when a
// task slot becomes free, and when wake signals.
func (s *Service) pollLoop(ctx context.Context, tasks *keyedTasks, wake <-chan struct{}, poll func() (time.Time, error)) error {
	for backoff := minBackoff; ; {
		next, err := poll()
		wait := max(time.Until(next), 0)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("listing claims to release failed; retrying", "wait", backoff, "error", err)
			wait, backoff = backoff, min(2*backoff, maxBackoff)
		} else {
			backoff = minBackoff
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-wake:
			timer.Stop()
			if flow.Sleep(ctx, minBackoff) != nil {
				return nil
			}
		case <-tasks.slotFree:
			timer.Stop()
			if flow.Sleep(ctx, coalesceDelay) != nil {
				return nil
			}
		case <-timer.C:
		}
	}
}

// startDue starts the releases that are due, and returns the next poll time.
func (s *Service) startDue(ctx context.Context, tasks *keyedTasks, window *activityWindow) (time.Time, error) {
	listed := map[string]bool{}
	next, err := s.releaseIdle(ctx, tasks, window, listed)
	retryAt, retryErr := s.startRetries(ctx, tasks, listed)
	if retryAt.Before(next) {
		next = retryAt
	}
	if err = errors.Join(err, retryErr); err == nil {
		tasks.retain(listed)
	}
	return next, err
}

// releaseIdle starts to release the idle claims of all pools, and returns the
// next poll time. It adds the claims that may become idle to listed.
func (s *Service) releaseIdle(ctx context.Context, tasks *keyedTasks, window *activityWindow, listed map[string]bool) (time.Time, error) {
	now := time.Now()
	next := now.Add(maxPollInterval)
	records, err := s.pools.Workloads(ctx)
	if err != nil {
		return next, fmt.Errorf("list the workloads: %w", err)
	}
	window.recordPoll(now)
	for _, r := range records {
		w, _, err := s.pools.Catalog.Current(ctx, r.ID)
		ttl := time.Duration(0)
		if err == nil {
			ttl = w.Pool.ClaimIdleTTL
		}
		if ttl <= 0 {
			continue // deleted, or without a claim_idle_ttl
		}
		claims, err := s.store.Claims(ctx, claim.Filter{Workload: r.ID, States: []claim.State{claim.Active}})
		if err != nil {
			return next, fmt.Errorf("list the claims of %s: %w", r.ID, err)
		}
		if soon := now.Add(ttl); soon.Before(next) {
			next = soon // a claim may just have become active
		}
		for _, c := range claims {
			listed[c.ID] = true
			at := tasks.dueAt(c.ID, window.releaseAt(s.claims.LastSeen(c).Add(ttl), ttl))
			if !at.After(now) {
				tasks.start(c.ID, c.Workload, func() { s.logFailure(ctx, c, s.releaseIfIdle(ctx, c, ttl, now)) })
			} else if at.Before(next) {
				next = at
			}
		}
	}
	return next, nil
}

// logFailure logs a failed release of these loops. A retained one is already
// recorded with its next retry, and one with a newer server's container is left
// to such a server.
func (s *Service) logFailure(ctx context.Context, c claim.Claim, err error) {
	_, retained := errors.AsType[*FailedError](err)
	if err == nil || retained || errors.Is(err, errNotIdle) || errors.Is(err, runtime.ErrNewer) || ctx.Err() != nil {
		return
	}
	s.log.Warn("claim release failed; retrying", "claim", c.ID, "error", err)
}

// releaseIfIdle releases a claim, unless its tenant has become active.
func (s *Service) releaseIfIdle(ctx context.Context, c claim.Claim, ttl time.Duration, now time.Time) error {
	if changed, err := s.stateChangedSince(ctx, c, now.Add(-ttl)); changed || err != nil {
		return err
	}
	// The tenant may have been active in the meantime: the release may have
	// waited for a slot, and the scan may have recorded activity.
	idle := func(c claim.Claim) bool { return c.State == claim.Active && !s.claims.LastSeen(c).Add(ttl).After(now) }
	c, err := s.store.Claim(ctx, c.ID)
	if err != nil || !idle(c) {
		return err
	}
	_, err = s.Release(ctx, c.ID, Request{Reason: "tenant idle for " + ttl.String(), onlyIf: idle})
	return err
}

// stateChangedSince reports whether the tenant's state has changed since the
// given time, and records the time of the change. A state that takes too long
// to scan counts as changed now.
func (s *Service) stateChangedSince(ctx context.Context, c claim.Claim, since time.Time) (bool, error) {
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
