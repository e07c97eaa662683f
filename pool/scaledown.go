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

// poolCounts has the numbers of containers that the fill loop needs.
type poolCounts struct {
	total       int // all but Destroyed
	usable      int // idle, current revision, for any tenant
	tenantBound int // idle, current revision, for their last tenant only
	outdated    int // idle, older revision or protocol version
	creating    int // of the current revision and protocol version
	newer       int // of a newer server, in any state: this server ignores them
	unhealthy   int // idle and not claimable
	destroying  int // being destroyed
}

// summarize returns the poolCounts for a server of that protocol version.
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

// OutdatedReason returns why a container is outdated and is to be replaced; empty
// if it is current.
func OutdatedReason(c Container, revision string, protocol int) string {
	switch {
	case c.Revision != revision:
		return "its revision is outdated"
	case c.Protocol < protocol:
		return fmt.Sprintf("its protocol version is outdated: it is %d, and this server's is %d", c.Protocol, protocol)
	}
	return ""
}

// matchAll returns a match function for evict that matches every container.
func matchAll(reason string) func(Container) string { return func(Container) string { return reason } }

// matchIf returns a match function for evict that matches some containers.
func matchIf(reason string, match func(Container) bool) func(Container) string {
	return func(c Container) string {
		if match(c) {
			return reason
		}
		return ""
	}
}

// evictSurplus destroys idle containers that the pool does not need: unhealthy
// ones, but not those that may be reached again, outdated ones once enough new ones are ready, and those above max_size.
func (f *Filler) evictSurplus(ctx context.Context, d demand) error {
	t := d.counts
	if t.unhealthy > 0 {
		isUnhealthy := func(c Container) bool { return c.Health == Exited || c.Health == Unhealthy && !c.IsUnreachable() }
		if err := f.evict(ctx, d.r.ID, t.unhealthy, matchIf("it is unhealthy", isUnhealthy)); err != nil {
			return err
		}
	}
	switch {
	case t.outdated > 0 && d.missing <= 0 && t.creating == 0:
		return f.evict(ctx, d.r.ID, t.outdated, f.matchOutdated(d.r))
	case d.room+t.destroying < 0:
		return f.evict(ctx, d.r.ID, -d.room-t.destroying, matchAll("the pool is larger than max_size"))
	}
	return nil
}

// makeRoom destroys idle containers in favor of the missing ones, just before
// one of these is created: an outdated one if there is no room, or those that are
// kept for their last tenant, as many as min_idle and the waiting claims need. One
// that cannot be reached makes no room: it is not removed before its machine responds.
// While creation fails, there is room for one probe only.
func (f *Filler) makeRoom(ctx context.Context, d demand) error {
	t := d.counts
	atCapacity := d.room <= 0 && t.destroying == 0 && t.creating == 0
	wanted := d.missing
	if d.breaker.of(d.r.Revision).Failures > 0 {
		wanted = min(wanted, halfOpenProbes)
	}
	shortfall := wanted - max(d.room, 0) - t.destroying // number of containers that need an eviction
	switch {
	case t.outdated > 0 && atCapacity:
		return f.evict(ctx, d.r.ID, 1, func(c Container) string {
			if c.IsUnreachable() {
				return ""
			}
			return f.matchOutdated(d.r)(c)
		})
	case t.tenantBound > 0 && shortfall > 0:
		isTenantBound := func(c Container) bool { return c.Tenant != "" && !c.IsUnreachable() }
		return f.evict(ctx, d.r.ID, shortfall, matchIf("the pool needs its room for other tenants", isTenantBound))
	}
	return nil
}

// matchOutdated returns a match function for evict that matches the outdated
// containers.
func (f *Filler) matchOutdated(r Record) func(Container) string {
	return func(c Container) string { return OutdatedReason(c, r.Revision, f.protocol) }
}

// evictExpired destroys containers that have been idle for the pool's
// idle_timeout and returns when the next one expires. It keeps min_idle of the
// containers that any tenant may claim. Those that are kept for their last
// tenant do not count towards min_idle, and all of them expire.
func (f *Filler) evictExpired(ctx context.Context, w *workload.Workload, r Record, t poolCounts) time.Time {
	surplus := max(0, t.usable-r.MinIdle)
	if w.Pool.IdleTimeout <= 0 || surplus+t.tenantBound == 0 {
		return time.Time{}
	}
	idle, err := f.idle(ctx, r.ID)
	if err != nil {
		f.log.Error("listing idle containers failed; retrying", "workload", r.ID, "error", err)
		return time.Now().Add(minBackoff)
	}
	next, now, evicted := time.Time{}, time.Now(), 0
	for _, c := range idle {
		expiresAt := c.ChangedAt.Add(w.Pool.IdleTimeout)
		tenantBound := c.Tenant != "" && w.Pool.Reuse != workload.ReuseWipe
		switch {
		case !tenantBound && surplus == 0:
		case !expiresAt.After(now) && evicted == evictBatch:
			return now
		case !expiresAt.After(now):
			evicted++
			if err := f.provisioner.beginDestroy(ctx, c.ID, []State{Idle}, "it was idle for "+w.Pool.IdleTimeout.String()); err != nil {
				f.log.Error("evicting idle container failed; retrying", "container", c.ID, "error", err)
				return now.Add(minBackoff)
			}
			if !tenantBound {
				surplus--
			}
		case next.IsZero() || expiresAt.Before(next):
			next = expiresAt
		}
	}
	return next
}

// idle returns the idle containers of a workload, without those of a newer server.
func (f *Filler) idle(ctx context.Context, id string) ([]Container, error) {
	idle, err := f.store.Containers(ctx, ContainerFilter{Workload: id, States: []State{Idle}})
	isNewer := func(c Container) bool { return c.Protocol > f.protocol }
	return slices.DeleteFunc(idle, isNewer), err
}

// evictBatch is how many containers a check of a pool evicts at most. Others
// have their turn before it is checked again.
const evictBatch = 50

// evict destroys up to n idle containers for which match returns a reason, the
// one that has been idle longest first. Of more than evictBatch, it has the rest
// evicted by the next checks of the pool.
func (f *Filler) evict(ctx context.Context, id string, n int, match func(Container) string) error {
	idle, err := f.idle(ctx, id)
	if err != nil {
		return fmt.Errorf("list the idle containers: %w", err)
	}
	slices.SortStableFunc(idle, func(a, b Container) int { return a.ChangedAt.Compare(b.ChangedAt) })
	evicted := 0
	for _, c := range idle {
		if evicted == n {
			break
		}
		if evicted == evictBatch {
			f.Wake(id)
			break
		}
		reason := match(c)
		if reason == "" {
			continue
		}
		if err := f.provisioner.beginDestroy(ctx, c.ID, []State{Idle}, reason); err != nil {
			return fmt.Errorf("begin to destroy container %s: %w", c.ID, err)
		}
		evicted++
	}
	return nil
}

// drain destroys the idle containers. If the workload is to be deleted and has
// no containers left, drain removes its record.
func (f *Filler) drain(ctx context.Context, r Record, t poolCounts) error {
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
		activity.Event{Type: activity.PoolDestroyed, Workload: r.ID, Message: "pool deleted"},
		activity.Event{Type: activity.WorkloadDeleted, Workload: r.ID, Message: "workload deleted"})
	if err != nil && !errors.Is(err, ErrInUse) && !errors.Is(err, ErrWorkloadNotFound) {
		return fmt.Errorf("remove the workload: %w", err)
	}
	return nil
}
