package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/workqueue"
)

// listUploads adds the active claims whose periodic upload is due, the longest
// overdue first, and returns when to list again.
func (s *Scheduler) listUploads(ctx context.Context) (time.Time, error) {
	now := time.Now()
	next := now.Add(maxListInterval)
	records, err := s.pools.Workloads(ctx)
	if err != nil {
		return next, fmt.Errorf("list the workloads: %w", err)
	}
	var overdue []claim.Claim
	for _, r := range records {
		interval := s.uploadInterval(ctx, r.ID)
		if interval <= 0 {
			continue
		}
		claims, err := s.store.Claims(ctx, claim.Filter{Workload: r.ID, States: []claim.State{claim.Active}})
		if err != nil {
			return next, fmt.Errorf("list the claims of %s: %w", r.ID, err)
		}
		next = earliest(next, now.Add(interval)) // a claim may just have become active
		for _, c := range claims {
			if at := lastUploadAt(c).Add(interval); at.After(now) {
				next = earliest(next, at)
			} else {
				overdue = append(overdue, c)
			}
		}
	}
	slices.SortStableFunc(overdue, func(a, b claim.Claim) int { return lastUploadAt(a).Compare(lastUploadAt(b)) })
	for _, c := range overdue {
		s.uploads.add(c)
	}
	return next, nil
}

// uploadInterval returns the interval of a workload's periodic uploads; 0 if it
// has none, or is deleted.
func (s *Scheduler) uploadInterval(ctx context.Context, workload string) time.Duration {
	w, _, err := s.pools.Catalog.Current(ctx, workload)
	if err != nil || w.Sync == nil {
		return 0
	}
	return w.Sync.Policy.Interval
}

// upload uploads the state of a claim that is still due. A failure is recorded as
// an event, and is retried at the next interval.
func (s *Scheduler) upload(ctx context.Context, id string) error {
	c, err := s.store.Claim(ctx, id)
	if errors.Is(err, claim.ErrClaimNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	interval := s.uploadInterval(ctx, c.Workload)
	if c.State != claim.Active || interval <= 0 || lastUploadAt(c).Add(interval).After(time.Now()) {
		return nil
	}
	created, _, err := s.pools.Catalog.Revision(ctx, c.Workload, c.Revision)
	if err != nil || created.Sync == nil {
		return nil //nolint:nilerr // a revision that cannot be read cannot be uploaded
	}
	_, _, err = s.claims.StateSync.Upload(ctx, c, created, "interval")
	if err == nil || errors.Is(err, claim.ErrNotActive) {
		return nil
	}
	if ctx.Err() == nil {
		s.log.Warn("periodic upload failed; retrying", "claim", c.ID, "error", err)
	}
	return workqueue.RetryAfter(interval, err)
}

// lastUploadAt returns when the state of an active claim was last uploaded, or
// when the claim began.
func lastUploadAt(c claim.Claim) time.Time {
	last := c.CreatedAt
	for _, t := range []*time.Time{c.ActiveAt, c.SyncedAt} {
		if t != nil && t.After(last) {
			last = *t
		}
	}
	return last
}
