package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/workload"
)

// sums is a pool in numbers, as the fill loop needs them.
type sums struct {
	total    int // all but Gone
	usable   int // idle ones of the current revision that any tenant may have
	kept     int // idle ones of the current revision that only their last tenant may have
	outdated int // idle ones of older revisions
	creating int // of the current revision
	sick     int // idle ones that nobody may have
	leaving  int // being destroyed
}

// tally sums up counts.
func tally(counts []Count, revision string, reuse workload.Reuse) sums {
	var t sums
	for _, k := range counts {
		t.total += k.N
		current := k.Revision == revision
		switch {
		case k.State == Creating && current:
			t.creating += k.N
		case k.State == Destroying:
			t.leaving += k.N
		case k.State != Idle:
		case !k.Healthy:
			t.sick += k.N
		case !current:
			t.outdated += k.N
		case k.Used && reuse != workload.ReuseWipe:
			t.kept += k.N
		default:
			t.usable += k.N
		}
	}
	return t
}

// retire gives up idle containers that stand in the way: those of an older
// revision once enough new ones are ready, or one at a time where there is no
// room for a new one; then as many of those that are kept for their last tenant
// as min_idle and the claims that wait lack room for. While new ones cannot be
// made, neither is given up.
func (f *Filler) retire(ctx context.Context, r Record, t sums, missing, room int) error {
	old := func(c Container) bool { return c.Revision != r.Revision }
	cramped := missing > 0 && room <= 0 && t.leaving == 0 && t.creating == 0
	wanted := missing - max(room, 0) - t.leaving // containers that only an eviction makes room for
	broken := f.breakers.get(r.ID, r.Revision).failures > 0
	if t.sick > 0 {
		sick := func(c Container) bool { return c.Health == Unhealthy || c.Health == Dead }
		if err := f.evict(ctx, r.ID, t.sick, "it is not healthy", sick); err != nil {
			return err
		}
	}
	switch {
	case t.outdated > 0 && missing <= 0 && t.creating == 0:
		return f.evict(ctx, r.ID, t.outdated, "its revision is outdated", old)
	case t.outdated > 0 && cramped && !broken:
		return f.evict(ctx, r.ID, 1, "its revision is outdated", old)
	case t.kept > 0 && wanted > 0 && !broken:
		return f.evict(ctx, r.ID, wanted, "the pool needs its room for other tenants", func(c Container) bool { return c.Tenant != "" })
	case room+t.leaving < 0:
		return f.evict(ctx, r.ID, -room-t.leaving, "the pool is larger than max_size", func(Container) bool { return true })
	}
	return nil
}

// expiry gives up idle containers that have been idle for the pool's
// idle_timeout, and returns when the next one will have been. Of those that any
// tenant may have min_idle stay; those that are kept for their last tenant do
// not count as such, and none of them stays.
func (f *Filler) expiry(ctx context.Context, w *workload.Workload, r Record, t sums) time.Time {
	surplus := max(0, t.usable-r.MinIdle)
	if w.Pool.IdleTimeout <= 0 || surplus+t.kept == 0 {
		return time.Time{}
	}
	idle, err := f.store.Containers(ctx, ContainerFilter{Workload: r.ID, States: []State{Idle}})
	if err != nil {
		f.log.Error("list the idle containers", "workload", r.ID, "error", err)
		return time.Now().Add(firstPause)
	}
	next, now := time.Time{}, time.Now()
	for _, c := range idle {
		ends := c.ChangedAt.Add(w.Pool.IdleTimeout)
		kept := c.Tenant != "" && w.Pool.Reuse != workload.ReuseWipe
		switch {
		case !kept && surplus == 0:
		case !ends.After(now):
			if err := f.maker.condemn(ctx, c.ID, []State{Idle}, "it was idle for "+w.Pool.IdleTimeout.String()); err != nil {
				f.log.Error("give up an idle container", "container", c.ID, "error", err)
				return now.Add(firstPause)
			}
			if !kept {
				surplus--
			}
		case next.IsZero() || ends.Before(next):
			next = ends
		}
	}
	f.remover.Wake()
	return next
}

// evict gives up to n idle containers that match, the one that has been idle
// longest first.
func (f *Filler) evict(ctx context.Context, id string, n int, reason string, match func(Container) bool) error {
	idle, err := f.store.Containers(ctx, ContainerFilter{Workload: id, States: []State{Idle}})
	if err != nil {
		return fmt.Errorf("list the idle containers: %w", err)
	}
	slices.SortStableFunc(idle, func(a, b Container) int { return a.ChangedAt.Compare(b.ChangedAt) })
	for _, c := range idle {
		if n == 0 {
			break
		}
		if !match(c) {
			continue
		}
		if err := f.maker.condemn(ctx, c.ID, []State{Idle}, reason); err != nil {
			return fmt.Errorf("give up container %s: %w", c.ID, err)
		}
		n--
	}
	f.remover.Wake()
	return nil
}

// drain gives up what is idle, and the workload's record when it is to be
// deleted and nothing is left.
func (f *Filler) drain(ctx context.Context, r Record, t sums) error {
	f.queue.Shake(r.ID)
	if t.usable+t.kept+t.outdated+t.sick > 0 {
		err := f.evict(ctx, r.ID, t.total, "the pool is draining", func(Container) bool { return true })
		if err != nil {
			return err
		}
	}
	if !r.Deleting || t.total > 0 {
		return nil
	}
	err := f.store.RemoveWorkload(ctx, r.ID,
		activity.Event{Type: activity.PoolDestroyed, Workload: r.ID, Message: "pool is empty and gone"},
		activity.Event{Type: activity.WorkloadDeleted, Workload: r.ID, Message: "workload is deleted"})
	if err != nil && !errors.Is(err, ErrInUse) && !errors.Is(err, ErrNoWorkload) {
		return fmt.Errorf("remove the workload: %w", err)
	}
	return nil
}
