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

// poolCounts is a pool in numbers, as the fill loop needs them.
type poolCounts struct {
	total       int // all but Gone
	usable      int // idle ones of the current revision that any tenant may have
	tenantBound int // idle ones of the current revision that only their last tenant may have
	outdated    int // idle ones of older revisions or protocol versions
	creating    int // of the current revision and version
	newer       int // of a newer server, in any state: nothing happens to them here
	unhealthy   int // idle ones that nobody may have
	destroying  int // being destroyed
}

// summarize sums up counts, as a server of that version sees them.
func summarize(counts []Count, revision string, protocol int, reuse workload.Reuse) poolCounts {
	var t poolCounts
	for _, k := range counts {
		t.total += k.N
		current := k.Revision == revision && k.Protocol == protocol
		switch {
		case k.Protocol > protocol:
			t.newer += k.N
		case k.State == Creating && current:
			t.creating += k.N
		case k.State == Destroying:
			t.destroying += k.N
		case k.State != Idle:
		case !k.Healthy:
			t.unhealthy += k.N
		case !current:
			t.outdated += k.N
		case k.Used && reuse != workload.ReuseWipe:
			t.tenantBound += k.N
		default:
			t.usable += k.N
		}
	}
	return t
}

// OutdatedReason is why a container is replaced that is not as new ones are; empty
// for one that is.
func OutdatedReason(c Container, revision string, protocol int) string {
	switch {
	case c.Revision != revision:
		return "its revision is outdated"
	case c.Protocol < protocol:
		return fmt.Sprintf("its protocol version is outdated: it is %d, and this server's is %d", c.Protocol, protocol)
	}
	return ""
}

// matchAll is a match of evict.
func matchAll(reason string) func(Container) string { return func(Container) string { return reason } }

// matchIf is a match of evict for some containers.
func matchIf(reason string, match func(Container) bool) func(Container) string {
	return func(c Container) string {
		if match(c) {
			return reason
		}
		return ""
	}
}

// evictSurplus gives up idle containers that stand in the way: those of an older
// revision or protocol version once enough new ones are ready, or one at a time where there is no
// room for a new one; then as many of those that are kept for their last tenant
// as min_idle and the claims that wait lack room for. While new ones cannot be
// made, neither is given up.
func (f *Filler) evictSurplus(ctx context.Context, r Record, t poolCounts, missing, room int) error {
	outdated := func(c Container) string { return OutdatedReason(c, r.Revision, f.protocol) }
	atCapacity := missing > 0 && room <= 0 && t.destroying == 0 && t.creating == 0
	shortfall := missing - max(room, 0) - t.destroying // containers that only an eviction makes room for
	isFailing := f.breakers.get(r.ID, r.Revision).failures > 0
	if t.unhealthy > 0 {
		isUnhealthy := func(c Container) bool { return c.Health == Unhealthy || c.Health == Exited }
		if err := f.evict(ctx, r.ID, t.unhealthy, matchIf("it is not healthy", isUnhealthy)); err != nil {
			return err
		}
	}
	switch {
	case t.outdated > 0 && missing <= 0 && t.creating == 0:
		return f.evict(ctx, r.ID, t.outdated, outdated)
	case t.outdated > 0 && atCapacity && !isFailing:
		return f.evict(ctx, r.ID, 1, outdated)
	case t.tenantBound > 0 && shortfall > 0 && !isFailing:
		isTenantBound := func(c Container) bool { return c.Tenant != "" }
		return f.evict(ctx, r.ID, shortfall, matchIf("the pool needs its room for other tenants", isTenantBound))
	case room+t.destroying < 0:
		return f.evict(ctx, r.ID, -room-t.destroying, matchAll("the pool is larger than max_size"))
	}
	return nil
}

// evictExpired gives up idle containers that have been idle for the pool's
// idle_timeout, and returns when the next one will have been. Of those that any
// tenant may have min_idle stay; those that are kept for their last tenant do
// not count as such, and none of them stays.
func (f *Filler) evictExpired(ctx context.Context, w *workload.Workload, r Record, t poolCounts) time.Time {
	surplus := max(0, t.usable-r.MinIdle)
	if w.Pool.IdleTimeout <= 0 || surplus+t.tenantBound == 0 {
		return time.Time{}
	}
	idle, err := f.idle(ctx, r.ID)
	if err != nil {
		f.log.Error("list the idle containers", "workload", r.ID, "error", err)
		return time.Now().Add(minBackoff)
	}
	next, now := time.Time{}, time.Now()
	for _, c := range idle {
		expiresAt := c.ChangedAt.Add(w.Pool.IdleTimeout)
		tenantBound := c.Tenant != "" && w.Pool.Reuse != workload.ReuseWipe
		switch {
		case !tenantBound && surplus == 0:
		case !expiresAt.After(now):
			if err := f.provisioner.beginDestroy(ctx, c.ID, []State{Idle}, "it was idle for "+w.Pool.IdleTimeout.String()); err != nil {
				f.log.Error("give up an idle container", "container", c.ID, "error", err)
				return now.Add(minBackoff)
			}
			if !tenantBound {
				surplus--
			}
		case next.IsZero() || expiresAt.Before(next):
			next = expiresAt
		}
	}
	f.reaper.Wake()
	return next
}

// idle lists the idle containers of a workload, without those of a newer server.
func (f *Filler) idle(ctx context.Context, id string) ([]Container, error) {
	idle, err := f.store.Containers(ctx, ContainerFilter{Workload: id, States: []State{Idle}})
	isNewer := func(c Container) bool { return c.Protocol > f.protocol }
	return slices.DeleteFunc(idle, isNewer), err
}

// evict gives up to n idle containers for which match has a reason, the one that
// has been idle longest first.
func (f *Filler) evict(ctx context.Context, id string, n int, match func(Container) string) error {
	idle, err := f.idle(ctx, id)
	if err != nil {
		return fmt.Errorf("list the idle containers: %w", err)
	}
	slices.SortStableFunc(idle, func(a, b Container) int { return a.ChangedAt.Compare(b.ChangedAt) })
	for _, c := range idle {
		if n == 0 {
			break
		}
		reason := match(c)
		if reason == "" {
			continue
		}
		if err := f.provisioner.beginDestroy(ctx, c.ID, []State{Idle}, reason); err != nil {
			return fmt.Errorf("give up container %s: %w", c.ID, err)
		}
		n--
	}
	f.reaper.Wake()
	return nil
}

// drain gives up what is idle, and the workload's record when it is to be
// deleted and nothing is left.
func (f *Filler) drain(ctx context.Context, r Record, t poolCounts) error {
	f.queue.NotifyAll(r.ID)
	if t.usable+t.tenantBound+t.outdated+t.unhealthy > 0 {
		err := f.evict(ctx, r.ID, t.total, matchAll("the pool is draining"))
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
	if err != nil && !errors.Is(err, ErrInUse) && !errors.Is(err, ErrWorkloadNotFound) {
		return fmt.Errorf("remove the workload: %w", err)
	}
	return nil
}
