package release

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/workload"
)

// parallelUploads bounds how many uploads at intervals are under way at once.
const parallelUploads = 8

// runPeriodicUploads takes the state of active claims into snapshots, as often as
// their workloads say, until ctx ends.
func (s *Service) runPeriodicUploads(ctx context.Context) error {
	tasks := newKeyedTasks(parallelUploads)
	defer tasks.wait()
	for {
		next, err := s.startDueUploads(ctx, tasks)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("claims whose state is to be taken could not be listed", "error", err)
		}
		timer := time.NewTimer(max(time.Until(next), 0))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-tasks.slotFree:
			timer.Stop()
			if flow.Sleep(ctx, coalesceDelay) != nil {
				return nil
			}
		case <-timer.C:
		}
	}
}

// startDueUploads begins the uploads whose time has come, the longest due first, and
// says when to look again.
func (s *Service) startDueUploads(ctx context.Context, tasks *keyedTasks) (time.Time, error) {
	now := time.Now()
	next := now.Add(maxPollInterval)
	records, err := s.pools.Workloads(ctx)
	if err != nil {
		return next, fmt.Errorf("list the workloads: %w", err)
	}
	listed := map[string]bool{}
	var overdueClaims []overdue
	for _, r := range records {
		w, _, err := s.pools.Catalog.Current(ctx, r.ID)
		if err != nil || w.Sync == nil || w.Sync.Policy.Interval <= 0 {
			continue // gone since, or only at other times
		}
		interval := w.Sync.Policy.Interval
		if soon := now.Add(interval); soon.Before(next) {
			next = soon // a claim may have become active just now
		}
		claims, err := s.store.Claims(ctx, claim.Filter{Workload: r.ID, States: []claim.State{claim.Active}})
		if err != nil {
			return next, fmt.Errorf("list the claims of %s: %w", r.ID, err)
		}
		for _, c := range claims {
			listed[c.ID] = true
			due := lastUploadAt(c, tasks.lastAttempt(c.ID)).Add(interval)
			if due.After(now) {
				if due.Before(next) {
					next = due
				}
				continue
			}
			overdueClaims = append(overdueClaims, overdue{c, due})
		}
	}
	slices.SortStableFunc(overdueClaims, func(a, b overdue) int { return a.since.Compare(b.since) })
	for _, o := range overdueClaims {
		created, _, err := s.pools.Catalog.Revision(ctx, o.claim.Workload, o.claim.Revision)
		if err == nil && created.Sync != nil {
			tasks.start(o.claim.ID, o.claim.Workload, func() { s.uploadClaim(ctx, o.claim, created) })
		}
	}
	tasks.retain(listed)
	return next, nil
}

// uploadClaim takes the state of a claim. What goes wrong is on record.
func (s *Service) uploadClaim(ctx context.Context, c claim.Claim, w *workload.Workload) {
	_, _, err := s.claims.StateSync.Upload(ctx, c, w, "interval")
	if err != nil && !errors.Is(err, claim.ErrNotActive) && ctx.Err() == nil {
		s.log.Warn("the state of a claim was not taken and is tried again", "claim", c.ID, "error", err)
	}
}

// overdue is a claim whose state is to be taken.
type overdue struct {
	claim claim.Claim
	since time.Time
}

// lastUploadAt is when the state of an active claim was last taken, or was tried
// to be, or when it began.
func lastUploadAt(c claim.Claim, lastAttempt time.Time) time.Time {
	last := c.CreatedAt
	for _, t := range []*time.Time{c.ActiveAt, c.SyncedAt, &lastAttempt} {
		if t != nil && t.After(last) {
			last = *t
		}
	}
	return last
}
