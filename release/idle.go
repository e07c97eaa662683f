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

// How the loop of this package waits: after a failure, and at most between two
// looks for idle claims, for a workload may be applied at any time.
const (
	firstRetry   = time.Second
	longestRetry = time.Minute
	longestLook  = 30 * time.Second
)

// How many releases are finished at once, and how many idle claims released.
const (
	parallelReleases = 16
	parallelReaps    = 8
)

// Finish finishes the releases of this server that could not be finished when
// they were asked for, and those that it took over, until ctx ends.
func (s *Service) Finish(ctx context.Context) error {
	for retry := firstRetry; ; {
		err := s.Recover(ctx)
		failed, soon := s.failed, (<-chan time.Time)(nil)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("releases could not be finished and are tried again", "wait", retry, "error", err)
			// Each that failed has just said so: that is no reason to hurry.
			failed, soon = nil, time.After(retry)
			retry = min(2*retry, longestRetry)
		} else {
			retry = firstRetry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-failed:
			if flow.Pause(ctx, firstRetry) != nil {
				return nil
			}
		case <-soon:
		}
	}
}

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
	g.Go(func() error { return s.runIntervals(ctx) })
	return g.Wait()
}

func (s *Service) runReleases(ctx context.Context) error {
	retry := firstRetry
	for {
		next, err := s.reap(ctx)
		due, dueErr := s.retry(ctx)
		if due.Before(next) {
			next = due
		}
		err = errors.Join(dueErr, err)
		wait := max(time.Until(next), 0)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("claims to be released could not be, and are tried again", "wait", retry, "error", err)
			wait, retry = retry, min(2*retry, longestRetry)
		} else {
			retry = firstRetry
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-s.kept:
			t.Stop()
			if flow.Pause(ctx, firstRetry) != nil {
				return nil
			}
		case <-t.C:
		}
	}
}

// reap releases the idle claims of all pools and returns when to look again.
func (s *Service) reap(ctx context.Context) (time.Time, error) {
	now := time.Now()
	next := now.Add(longestLook)
	records, err := s.pools.Workloads(ctx)
	if err != nil {
		return next, fmt.Errorf("list the workloads: %w", err)
	}
	var all error
	for _, r := range records {
		w, _, err := s.pools.Catalog.Current(ctx, r.ID)
		if err != nil || w.Pool.ClaimIdleTTL <= 0 {
			continue // gone since, or nobody is idle there
		}
		at, err := s.reapPool(ctx, r.ID, w.Pool.ClaimIdleTTL, now)
		all = errors.Join(all, err)
		if at.Before(next) {
			next = at
		}
	}
	return next, all
}

// reapPool releases the idle claims of one pool and returns when the next one
// may be idle.
func (s *Service) reapPool(ctx context.Context, workload string, ttl time.Duration, now time.Time) (time.Time, error) {
	next := now.Add(ttl)
	claims, err := s.store.Claims(ctx, claim.Filter{Workload: workload, States: []claim.State{claim.Active}})
	if err != nil {
		return next, fmt.Errorf("list the claims of %s: %w", workload, err)
	}
	var g errgroup.Group
	g.SetLimit(parallelReaps)
	for _, c := range claims {
		ends := c.LastActive().Add(ttl)
		if ends.After(now) {
			if ends.Before(next) {
				next = ends
			}
			continue
		}
		g.Go(func() error { return s.reapOne(ctx, c, ttl, now) })
	}
	return next, g.Wait()
}

// reapOne releases a claim, unless its tenant has shown itself after all.
func (s *Service) reapOne(ctx context.Context, c claim.Claim, ttl time.Duration, now time.Time) error {
	if busy, err := s.works(ctx, c, now.Add(-ttl)); busy || err != nil {
		return err
	}
	// It may have waited long for its turn, and its tenant was told that the
	// claim stands.
	c, err := s.store.Claim(ctx, c.ID)
	if err != nil || c.State != claim.Active || c.LastActive().Add(ttl).After(now) {
		return err
	}
	return s.tried(s.Release(ctx, c.ID, Request{Reason: "its tenant was idle for " + ttl.String()}))
}

// tried is what is to be said of a release that these loops have made: one that
// is kept back has been told of, and has its next time.
func (s *Service) tried(_ claim.Claim, err error) error {
	if _, again := errors.AsType[*FailedError](err); again {
		return nil
	}
	return err
}

// works says whether the tenant's state has been changed since a moment, and
// notes when it was.
func (s *Service) works(ctx context.Context, c claim.Claim, since time.Time) (bool, error) {
	w, _, err := s.pools.Catalog.Revision(ctx, c.Workload, c.Revision)
	if err != nil || len(w.StateFolders()) == 0 {
		return false, err
	}
	at, err := s.rt.Changed(ctx, c.Container, w.StateFolders())
	if errors.Is(err, runtime.ErrUnavailable) {
		return false, fmt.Errorf("look whether the tenant of claim %s is idle: %w", c.ID, err)
	}
	if err != nil || !at.After(since) {
		return false, nil // a container that has ended changes no more
	}
	if now := time.Now(); at.After(now) {
		at = now // its clock is ahead
	}
	_, err = s.store.MoveClaim(ctx, claim.Move{
		ID: c.ID, From: []claim.State{claim.Active},
		Set: func(c *claim.Claim) {
			if at.After(c.LastActive()) { // its tenant may have asked for it since
				c.TouchedAt = &at
			}
		},
	})
	if errors.Is(err, pool.ErrMoved) {
		err = nil // it has ended meanwhile
	}
	return true, err
}
