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

// How the loops of this package wait: after a failure, and at most between two
// looks for idle claims, for a workload may be applied at any time.
const (
	minBackoff      = time.Second
	maxBackoff      = time.Minute
	maxPollInterval = 30 * time.Second
	// When a thousand claims end together, not each end is worth a look at all.
	coalesceDelay = 100 * time.Millisecond
)

// How many releases are finished at once, and how many idle claims released or
// releases that were kept back tried again; of one workload, half as many.
const (
	parallelReleases     = 32
	parallelIdleReleases = 16
)

// Run releases claims whose tenants have been idle for the claim_idle_ttl of
// their pool, tries releases again that were kept back, and takes the state of
// claims into snapshots at their workloads' intervals, until ctx ends. One
// server is enough for it. Being active is: the claim becoming active, its
// tenant asking for it again, Touch, and a change of the files that are the
// tenant's state. Nothing else is: what a container does besides, and who looks
// at a claim, says nothing about its tenant.
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

// pollLoop has look begin what is due, again and again until ctx ends: at the time
// that it says, when there is room again, and when wake tells of something new.
func (s *Service) pollLoop(ctx context.Context, tasks *keyedTasks, wake <-chan struct{}, poll func() (time.Time, error)) error {
	for backoff := minBackoff; ; {
		next, err := poll()
		wait := max(time.Until(next), 0)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("claims to be released could not be listed, and are looked for again", "wait", backoff, "error", err)
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

// startDue begins the releases whose time has come, and says when to look again.
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

// releaseIdle begins to release the idle claims of all pools and returns when to look
// again. It adds the claims that may be idle to those that are listed.
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
			continue // gone since, or nobody is idle there
		}
		claims, err := s.store.Claims(ctx, claim.Filter{Workload: r.ID, States: []claim.State{claim.Active}})
		if err != nil {
			return next, fmt.Errorf("list the claims of %s: %w", r.ID, err)
		}
		if soon := now.Add(ttl); soon.Before(next) {
			next = soon // a claim may have become active just now
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

// logFailure tells of a release that these loops have tried in vain. One that is
// kept back has been told of, and has its next time; one from a newer server's
// container is left to such a server.
func (s *Service) logFailure(ctx context.Context, c claim.Claim, err error) {
	_, retained := errors.AsType[*FailedError](err)
	if err == nil || retained || errors.Is(err, errNotIdle) || errors.Is(err, runtime.ErrNewer) || ctx.Err() != nil {
		return
	}
	s.log.Warn("a claim could not be released, and that is tried again", "claim", c.ID, "error", err)
}

// releaseIfIdle releases a claim, unless its tenant has shown itself after all.
func (s *Service) releaseIfIdle(ctx context.Context, c claim.Claim, ttl time.Duration, now time.Time) error {
	if changed, err := s.stateChangedSince(ctx, c, now.Add(-ttl)); changed || err != nil {
		return err
	}
	// It may have waited long for its turn, and its tenant was told that the
	// claim stands: by this look, or while it was on its way.
	idle := func(c claim.Claim) bool { return c.State == claim.Active && !s.claims.LastSeen(c).Add(ttl).After(now) }
	c, err := s.store.Claim(ctx, c.ID)
	if err != nil || !idle(c) {
		return err
	}
	_, err = s.Release(ctx, c.ID, Request{Reason: "its tenant was idle for " + ttl.String(), onlyIf: idle})
	return err
}

// stateChangedSince says whether the tenant's state has been changed since a moment, and
// notes when it was. Where that took too long to find out it counts as changed
// just now.
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
		s.log.Warn("a tenant has more files than can be looked at, and counts as active", "claim", c.ID, "error", err)
		at, err = time.Now(), nil
	}
	if err != nil {
		return false, fmt.Errorf("look whether the tenant of claim %s is idle: %w", c.ID, err)
	}
	if !at.After(since) {
		return false, nil
	}
	if now := time.Now(); at.After(now) {
		at = now // its clock is ahead
	}
	_, err = s.store.UpdateClaim(ctx, claim.Transition{
		ID: c.ID, From: []claim.State{claim.Active},
		Set: func(c *claim.Claim) {
			if at.After(c.LastActive()) { // its tenant may have asked for it since
				c.TouchedAt = &at
			}
		},
	})
	if errors.Is(err, pool.ErrConflict) {
		err = nil // it has ended meanwhile
	}
	return true, err
}

// isContainerEnded says that the error is of a container in which its tenant can
// do nothing that counts any more. Of any other we do not know what it means
// for the tenant, so it makes nobody idle.
func isContainerEnded(err error) bool {
	return errors.Is(err, runtime.ErrNotFound) || errors.Is(err, runtime.ErrNotRunning) ||
		errors.Is(err, runtime.ErrContainerExited) || errors.Is(err, runtime.ErrTainted)
}
