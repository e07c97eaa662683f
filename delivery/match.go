package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

// match returns the changes that follow from events, and the workloads that may
// be ready to be deleted.
func (s *Service) match(ctx context.Context, events []activity.Event) (changes []Change, ends []string, err error) {
	for _, e := range events {
		switch e.Type {
		case activity.WorkloadApplied, activity.WorkloadDeleted, activity.PoolDrained:
			// Also by the event handler, perhaps later.
			s.applied.invalidate(e.Workload)
		}
	}
	for _, e := range events {
		if e.Workload == "" {
			continue
		}
		a, err := s.applied.of(ctx, e.Workload)
		if err != nil {
			return nil, nil, err
		}
		if a.isDeleting && !slices.Contains(ends, e.Workload) {
			ends = append(ends, e.Workload)
		}
		changes = append(changes, a.changes(e)...)
	}
	return changes, ends, nil
}

// changes returns the changes that follow from one event, in order: what waits
// for the end of a debounce is delivered before the last event of a claim or a
// container.
func (a applied) changes(e activity.Event) []Change {
	var all []Change
	if e.Depth > 0 {
		return nil
	}
	for _, h := range a.hooks {
		if h.Debounce == 0 {
			continue
		}
		for _, lane := range endingLanes(e) {
			all = append(all, Change{Flush: Key{e.Workload, h.Name, lane}})
		}
	}
	for _, h := range a.hooks {
		since, ok := a.since[h.Name]
		if ok && e.Seq > since && !h.Disabled && h.Matches(string(e.Type), e.Data) {
			all = append(all, Change{Add: newDelivery(h, e), Debounce: h.Debounce})
		}
	}
	return all
}

// endingLanes returns the lanes for which e is the last event, or the last one of
// a claim.
func endingLanes(e activity.Event) []string {
	switch e.Type {
	case activity.ClaimReleased, activity.ClaimFailed:
		lanes := []string{e.Claim}
		if e.Container != "" {
			lanes = append(lanes, e.Container)
		}
		return lanes
	case activity.ContainerDestroyed:
		return []string{e.Container}
	}
	return nil
}

// newDelivery returns the delivery of an event to a hook.
func newDelivery(h hooks.EventHook, e activity.Event) Delivery {
	return Delivery{
		ID: uuid.Must(uuid.NewV7()).String(), Workload: e.Workload, Hook: h.Name, Lane: laneOf(e),
		Seq: e.Seq, Event: e.Type, Container: e.Container, Claim: e.Claim, Tenant: e.Tenant, Priority: priorityOf(e),
	}
}

// priorityOf returns the priority of an event, in the order in which events are
// kept under pressure.
func priorityOf(e activity.Event) int {
	if e.Priority != nil {
		return min(*e.Priority, MaxTenantPriority)
	}
	if activity.IsUse(e.Type) {
		return activity.DefaultPriority // a tenant causes as many as it wants
	}
	return PriorityOwn
}

// laneOf returns the lane of an event.
func laneOf(e activity.Event) string {
	switch {
	case e.Container != "":
		return e.Container
	case e.Claim != "":
		return e.Claim
	}
	return e.Workload
}

// applied is what is known of the event hooks of a workload as it is applied now.
// The zero value is of one that does not exist.
type applied struct {
	w          *workload.Workload
	hooks      []hooks.EventHook
	since      map[string]int64 // the last event before each hook was applied
	isDeleting bool
}

// hook returns the hook with a name.
func (a applied) hook(name string) (hooks.EventHook, bool) {
	for _, h := range a.hooks {
		if h.Name == name {
			return h, true
		}
	}
	return hooks.EventHook{}, false
}

// appliedHooks keeps the event hooks of workloads until they are applied again.
type appliedHooks struct {
	workloads Workloads

	mu         sync.Mutex // guards the fields below
	byWorkload map[string]applied
	generation int // number of invalidations
}

// of returns the event hooks of a workload.
func (c *appliedHooks) of(ctx context.Context, id string) (applied, error) {
	c.mu.Lock()
	a, ok := c.byWorkload[id]
	generation := c.generation
	c.mu.Unlock()
	if ok {
		return a, nil
	}
	w, r, err := c.workloads.Current(ctx, id)
	if err != nil && !errors.Is(err, pool.ErrWorkloadNotFound) {
		return applied{}, fmt.Errorf("read the event hooks of workload %s: %w", id, err)
	}
	if err == nil {
		a = applied{w: w, hooks: w.EventHooks, since: r.EventHooks, isDeleting: r.Deleting}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.generation != generation {
		return a, nil // it may have been read before it was applied again
	}
	if c.byWorkload == nil {
		c.byWorkload = map[string]applied{}
	}
	c.byWorkload[id] = a
	return a, nil
}

// changes returns a number that grows when a workload is applied.
func (c *appliedHooks) changes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.generation
}

func (c *appliedHooks) invalidate(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation++
	delete(c.byWorkload, id)
}

func (c *appliedHooks) invalidateAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation++
	clear(c.byWorkload)
}
