package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

// current returns the workload as last applied, also while it is being deleted.
// One that is deleted has no intervals, because it has no containers either.
func (s *Scheduler) current(ctx context.Context, id string) (*workload.Workload, error) {
	w, _, err := s.pools.Catalog.Current(ctx, id)
	if errors.Is(err, pool.ErrWorkloadNotFound) {
		return &workload.Workload{ID: id}, nil
	}
	return w, err
}

// listActive returns the active claims that are due, of the workloads with an
// interval, and when to list again. dueAt returns when a claim is due. A workload
// that cannot be read keeps no other from being listed.
func (s *Scheduler) listActive(ctx context.Context, now time.Time, records []pool.Record, interval func(*workload.Workload) time.Duration,
	dueAt func(claim.Claim, time.Duration) time.Time,
) (due []claim.Claim, next time.Time, err error) {
	next = now.Add(maxListInterval)
	for _, r := range records {
		w, err := s.current(ctx, r.ID)
		if err != nil {
			if ctx.Err() == nil {
				s.log.Warn("reading workload failed; its claims are not listed", "workload", r.ID, "error", err)
			}
			continue
		}
		d := interval(w)
		if d <= 0 {
			continue
		}
		claims, err := s.store.Claims(ctx, claim.Filter{Workload: r.ID, States: []claim.State{claim.Active}})
		if err != nil {
			return due, next, fmt.Errorf("list the claims of %s: %w", r.ID, err)
		}
		next = earliest(next, now.Add(d)) // a claim may just have become active
		for _, c := range claims {
			if at := dueAt(c, d); at.After(now) {
				next = earliest(next, at)
			} else {
				due = append(due, c)
			}
		}
	}
	return due, next, nil
}
