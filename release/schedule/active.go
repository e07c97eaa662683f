package schedule

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
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
// interval, and when to list again. dueAt returns when a claim is due, zero for never,
// and when to list it for that. shortest gets the shortest interval. A workload that
// cannot be read keeps no other from being listed.
func (s *Scheduler) listActive(ctx context.Context, records []pool.Record, shortest *atomic.Int64,
	interval func(*workload.Workload) time.Duration, dueAt func(claim.Claim, time.Duration) (at, lookAt time.Time),
) (due []claim.Claim, next time.Time, err error) {
	now, intervals := time.Now(), map[string]time.Duration{}
	for _, r := range records {
		w, err := s.current(ctx, r.ID)
		if err == nil {
			if d := interval(w); d > 0 {
				intervals[r.ID] = d
			}
			continue
		}
		next = now.Add(unreadableIn)
		if ctx.Err() == nil {
			s.log.Warn("reading workload failed; its claims are not listed", "workload", r.ID, "error", err)
		}
	}
	// Before the claims are read: one that becomes active after that wakes the loop.
	shortest.Store(int64(shortestOf(intervals)))
	for id, d := range intervals {
		claims, err := s.store.Claims(ctx, claim.Filter{Workload: id, States: []claim.State{claim.Active}})
		if err != nil {
			return due, next, fmt.Errorf("list the claims of %s: %w", id, err)
		}
		for _, c := range claims {
			switch at, lookAt := dueAt(c, d); {
			case at.After(now):
				next = earliest(next, lookAt)
			case !at.IsZero():
				due = append(due, c)
			}
		}
	}
	return due, next, nil
}

// shortestOf returns the shortest of the intervals; 0 if there are none.
func shortestOf(intervals map[string]time.Duration) (shortest time.Duration) {
	for _, d := range intervals {
		if shortest == 0 || d < shortest {
			shortest = d
		}
	}
	return shortest
}
