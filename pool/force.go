package pool

import (
	"context"
	"errors"
	"fmt"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/workload"
)

// Forced is how an operator has forced the destruction of a container. A claimed
// container stays claimed until its claim is released, also after its removal.
type Forced string

// How the destruction is forced.
const (
	NotForced        Forced = ""
	ForcedAfterHooks Forced = "after_hooks" // after its pre_destroy hooks
	ForcedNow        Forced = "now"         // without them
	ForcedDone       Forced = "done"        // it is removed, and was claimed
)

// ForcedReason is why a container is destroyed although it is claimed.
const ForcedReason = "an operator destroyed it while it was claimed"

// The other reasons of destructions by operators.
const (
	requestedReason = "requested by an operator"
	skippedReason   = "an operator destroyed the container without its pre_destroy hooks"
)

// errForced is why hooks of a container are canceled.
var errForced = errors.New("an operator destroyed the container by force")

// DestroyContainer has the reaper destroy a container, after its pre_destroy
// hooks. For a claimed container it returns ErrInUse unless force is set: its
// running hook ends, and its claim remains, with health Exited, until its tenant
// releases it. For a container that is being destroyed, or is destroyed, it
// returns nil.
func (m *Manager) DestroyContainer(ctx context.Context, id string, force bool) error {
	return m.destroyContainer(ctx, id, force, ForcedAfterHooks)
}

// DestroyContainerNow is DestroyContainer without the pre_destroy hooks. Those
// that run end.
func (m *Manager) DestroyContainerNow(ctx context.Context, id string, force bool) error {
	return m.destroyContainer(ctx, id, force, ForcedNow)
}

func (m *Manager) destroyContainer(ctx context.Context, id string, force bool, how Forced) error {
	for range maxConflictRetries {
		c, err := m.store.Container(ctx, id)
		if err != nil {
			return err
		}
		change, err := destruction(c, force, how)
		if err != nil || change.ID == "" {
			return err
		}
		err = flow.Run(ctx, "force", flow.Step{Name: "record", Do: func(ctx context.Context) error {
			_, err := m.store.UpdateContainer(ctx, change)
			return err
		}})
		if !isConflict(err) {
			if err != nil {
				err = fmt.Errorf("begin to destroy container %s: %w", id, err)
			}
			return err
		}
	}
	return fmt.Errorf("begin to destroy container %s: %w %d times", id, ErrConflict, maxConflictRetries)
}

// destruction returns the change by which an operator destroys a container; the
// zero Transition if there is nothing to change.
func destruction(c Container, force bool, how Forced) (Transition, error) {
	isSet := c.Forced.covers(how)
	event := activity.Event{
		Type: activity.ContainerForced, Message: "the destruction of the container is forced",
		Data: activity.Data(activity.ContainerForcedData{Now: how == ForcedNow}),
	}
	setHow := func(c *Container) {
		if !c.Forced.covers(how) { // another call may have come first
			c.Forced = how
		}
	}
	switch {
	case c.State == Destroyed, c.State == Destroying && (how != ForcedNow || isSet):
		return Transition{}, nil
	case c.State == Creating:
		return Transition{}, fmt.Errorf("container %s is being created: %w", c.ID, ErrInUse)
	case c.State == Destroying:
		return Note(c.ID, Destroying, setHow, event), nil
	case c.State == Idle:
		m := BeginDestroy(c.ID, []State{Idle}, requestedReason)
		if how == ForcedNow {
			begin := m.Set
			m.Set = func(c *Container) { begin(c); c.Forced = ForcedNow }
		}
		return m, nil
	case !force:
		return Transition{}, fmt.Errorf("container %s: %w by %s of tenant %s", c.ID, ErrInUse, c.Claim, c.Tenant)
	case isSet:
		return Transition{}, nil
	}
	m := Note(c.ID, Claimed, func(c *Container) {
		c.Health, c.Reason = Exited, ForcedReason
		setHow(c)
	}, event)
	if c.Forced == NotForced {
		died := activity.Event{Type: activity.ContainerDied, Message: "container destroyed by force: " + ForcedReason}
		m.Events = []activity.Event{died, event}
	}
	return m, nil
}

// covers reports whether nothing is left to do for a request to destroy the
// container as how says.
func (f Forced) covers(how Forced) bool {
	return f == how || f == ForcedNow || f == ForcedDone
}

// IsDue reports whether the reaper destroys a container in this state.
func (c Container) IsDue() bool {
	return c.State == Destroying || c.State == Claimed && (c.Forced == ForcedAfterHooks || c.Forced == ForcedNow)
}

// force performs what an operator has recorded for a claimed container. It is
// safe to run again after any step.
func (p *Provisioner) force(ctx context.Context, c Container, w *workload.Workload, onStopping func()) error {
	p.health.Forget(c.ID)
	err := flow.Run(ctx, "force",
		flow.Step{Name: string(hooks.PreDestroy), When: hasPreDestroy(c, w), Do: func(ctx context.Context) error {
			return p.preDestroy(ctx, c, w)
		}},
		flow.Step{Name: "remove", Do: func(ctx context.Context) error { return p.remove(ctx, c.ID, w, onStopping) }},
		flow.Step{Name: "removed", Do: func(ctx context.Context) error { return p.markRemoved(ctx, c.ID) }},
	)
	if err != nil {
		return fmt.Errorf("destroy claimed container %s: %w", c.ID, err)
	}
	return nil
}

// markRemoved records that a container is removed. It stays claimed, unless its
// claim has ended in the meantime: it is then destroyed like any other.
func (p *Provisioner) markRemoved(ctx context.Context, id string) error {
	_, err := p.store.UpdateContainer(ctx, Note(id, Claimed, func(c *Container) { c.Forced = ForcedDone }))
	if isConflict(err) {
		return nil
	}
	return err
}

// endForced has the hooks end that run in containers whose destruction is
// forced, or start in them later.
func (p *Pools) endForced(ctx context.Context) error {
	forced, err := p.store.Containers(ctx, ContainerFilter{IsForced: true})
	for _, c := range forced {
		p.runner.End(c.ID, c.Forced == ForcedNow, errForced)
	}
	return err
}
