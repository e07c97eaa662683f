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

// runIntervals takes the state of active claims into snapshots, as often as
// their workloads say, until ctx ends.
func (s *Service) runIntervals(ctx context.Context) error {
	all := newRounds(parallelUploads)
	defer all.wait()
	for {
		next, err := s.upload(ctx, all)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("claims whose state is to be taken could not be listed", "error", err)
		}
		t := time.NewTimer(max(time.Until(next), 0))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-all.room:
			t.Stop()
			if flow.Pause(ctx, breath) != nil {
				return nil
			}
		case <-t.C:
		}
	}
}

// upload begins the uploads whose time has come, the longest due first, and
// says when to look again.
func (s *Service) upload(ctx context.Context, all *rounds) (time.Time, error) {
	now := time.Now()
	next := now.Add(longestLook)
	records, err := s.pools.Workloads(ctx)
	if err != nil {
		return next, fmt.Errorf("list the workloads: %w", err)
	}
	listed := map[string]bool{}
	var late []overdue
	for _, r := range records {
		w, _, err := s.pools.Catalog.Current(ctx, r.ID)
		if err != nil || w.Sync == nil || w.Sync.Policy.Interval <= 0 {
			continue // gone since, or only at other times
		}
		every := w.Sync.Policy.Interval
		if soon := now.Add(every); soon.Before(next) {
			next = soon // a claim may have become active just now
		}
		claims, err := s.store.Claims(ctx, claim.Filter{Workload: r.ID, States: []claim.State{claim.Active}})
		if err != nil {
			return next, fmt.Errorf("list the claims of %s: %w", r.ID, err)
		}
		for _, c := range claims {
			listed[c.ID] = true
			due := lastKept(c, all.tried(c.ID)).Add(every)
			if due.After(now) {
				if due.Before(next) {
					next = due
				}
				continue
			}
			late = append(late, overdue{c, due})
		}
	}
	slices.SortStableFunc(late, func(a, b overdue) int { return a.since.Compare(b.since) })
	for _, o := range late {
		made, _, err := s.pools.Catalog.Revision(ctx, o.claim.Workload, o.claim.Revision)
		if err == nil && made.Sync != nil {
			all.begin(o.claim.ID, o.claim.Workload, func() { s.uploadOne(ctx, o.claim, made) })
		}
	}
	all.keep(listed)
	return next, nil
}

// uploadOne takes the state of a claim. What goes wrong is on record.
func (s *Service) uploadOne(ctx context.Context, c claim.Claim, w *workload.Workload) {
	_, _, err := s.claims.Keeper.Upload(ctx, c, w, "interval")
	if err != nil && !errors.Is(err, claim.ErrNotActive) && ctx.Err() == nil {
		s.log.Warn("the state of a claim was not taken and is tried again", "claim", c.ID, "error", err)
	}
}

// overdue is a claim whose state is to be taken.
type overdue struct {
	claim claim.Claim
	since time.Time
}

// lastKept is when the state of an active claim was last taken, or was tried
// to be, or when it began.
func lastKept(c claim.Claim, tried time.Time) time.Time {
	last := c.CreatedAt
	for _, t := range []*time.Time{c.ActiveAt, c.SyncedAt, &tried} {
		if t != nil && t.After(last) {
			last = *t
		}
	}
	return last
}
