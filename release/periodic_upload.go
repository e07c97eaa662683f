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

// parallelUploads is the limit of concurrent periodic uploads.
const parallelUploads = 8

// runPeriodicUploads uploads the state of active claims at their workloads'
// intervals, until ctx ends.
func (s *Service) runPeriodicUploads(ctx context.Context) error {
	tasks := newKeyedTasks(parallelUploads)
	defer tasks.wait()
	for {
		next, err := s.startDueUploads(ctx, tasks)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("listing claims for periodic upload failed; retrying", "error", err)
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

// startDueUploads starts the uploads that are due, the longest overdue first,
// and returns the next poll time.
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
			continue // deleted, or without an interval
		}
		interval := w.Sync.Policy.Interval
		if soon := now.Add(interval); soon.Before(next) {
			next = soon // a claim may just have become active
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

// uploadClaim uploads the state of a claim. An error is recorded as an event.
func (s *Service) uploadClaim(ctx context.Context, c claim.Claim, w *workload.Workload) {
	_, _, err := s.claims.StateSync.Upload(ctx, c, w, "interval")
	if err != nil && !errors.Is(err, claim.ErrNotActive) && ctx.Err() == nil {
		s.log.Warn("periodic upload failed; retrying", "claim", c.ID, "error", err)
	}
}

// overdue is a claim whose upload is due.
type overdue struct {
	claim claim.Claim
	since time.Time
}

// lastUploadAt returns when the state of an active claim was last uploaded,
// when that was last tried, or when the claim began.
func lastUploadAt(c claim.Claim, lastAttempt time.Time) time.Time {
	last := c.CreatedAt
	for _, t := range []*time.Time{c.ActiveAt, c.SyncedAt, &lastAttempt} {
		if t != nil && t.After(last) {
			last = *t
		}
	}
	return last
}
