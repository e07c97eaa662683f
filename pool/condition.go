package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/rootcause"
	"github.com/hostler/hostler/runtime"
)

// The reasons of a container whose engine reports a condition. They are on record:
// a server that starts again knows what was recorded.
const (
	// TerminatingReason is that of Container.IsTerminating.
	TerminatingReason = "the engine was told to remove it, and it ends within its grace period"
	unreachableReason = "it cannot be reached: its machine does not respond"
)

// ErrTerminating is returned for a container that terminates before a claim has it.
var ErrTerminating = fmt.Errorf("%w: %s", ErrUnhealthy, TerminatingReason)

// IsTerminating reports whether it is on record that someone else has the engine
// remove the container.
func (c Container) IsTerminating() bool {
	return c.Health == Unhealthy && c.Reason == TerminatingReason
}

// IsUnreachable reports whether it is on record that the container cannot be
// reached.
func (c Container) IsUnreachable() bool {
	return c.Health == Unhealthy && c.Reason == unreachableReason
}

// missedCondition returns the condition that is to be recorded of a container that
// runs; empty if its record is right.
func missedCondition(c Container, now runtime.Condition) runtime.Condition {
	switch {
	case now == runtime.Terminating && !c.IsTerminating():
		return runtime.Terminating
	case now == runtime.Unreachable && c.Health == Healthy:
		return runtime.Unreachable
	case now == "" && c.IsUnreachable():
		return runtime.Reachable
	}
	return ""
}

// recordCondition records a condition of an idle or claimed container. If it is
// terminating, an idle one leaves the pool, and one that is being created never enters it. If it cannot be reached, it stays, but
// no claim gets it until it can be reached again.
func (w *Watcher) recordCondition(ctx context.Context, d runtime.Exit) error {
	c, err := w.store.Container(ctx, d.ID)
	if err != nil || !slices.Contains([]State{Creating, Idle, Claimed}, c.State) || c.Health == Exited || w.rt.Protocols().IsNewer(c.Protocol) {
		return err
	}
	switch d.Condition {
	case runtime.Terminating:
		if !c.IsTerminating() {
			return w.recordTerminating(ctx, c)
		}
	case runtime.Unreachable:
		if c.Health == Healthy && c.State != Creating {
			_, err = w.store.UpdateContainer(ctx, unreachable(c.ID, c.State))
		}
	case runtime.Reachable:
		if c.IsUnreachable() && c.State != Creating {
			return w.recordReached(ctx, c)
		}
	}
	return err
}

// recordTerminating records that a container ends soon. That is not a failure of its
// workload. If it is claimed, or returned, in the meantime, the error is a conflict.
func (w *Watcher) recordTerminating(ctx context.Context, c Container) error {
	event := activity.Event{Type: activity.ContainerTerminating, Message: "container is terminating: " + TerminatingReason}
	end := w.beginLoss(c)
	defer end(nil)
	_, err := w.store.UpdateContainer(ctx, BeginDestroy(c.ID, []State{Idle}, TerminatingReason, event))
	if !isConflict(err) {
		return err
	}
	for _, state := range []State{Claimed, Creating} {
		_, err = w.store.UpdateContainer(ctx, Note(c.ID, state, func(c *Container) {
			if c.Health != Exited {
				c.Health, c.Reason, c.ReasonChain = Unhealthy, TerminatingReason, nil
			}
		}, event))
		if !isConflict(err) {
			return err
		}
	}
	return err
}

// unreachable records that a container cannot be reached.
func unreachable(id string, s State) Transition {
	return Note(id, s, markUnreachable, activity.Event{
		Type: activity.ContainerUnhealthy, Message: unreachableReason, Data: activity.Data(activity.ContainerUnhealthyData{}),
	})
}

func markUnreachable(c *Container) {
	if c.Health == Healthy {
		c.Health, c.Reason, c.ReasonChain = Unhealthy, unreachableReason, nil
	}
}

// ReturnUnreachable is Return of a container that could not be reached: no claim gets
// it until it can be.
func ReturnUnreachable(set func(*Container)) Transition {
	t := Return("container returned unused: "+unreachableReason, func(c *Container) {
		markUnreachable(c)
		set(c)
	})
	return t
}

// recordReached makes a container usable again, if it responds. One that never does is
// tainted after a time, and an idle one is destroyed then. The backend bounds each
// attempt: a shorter bound would leave it undecided.
func (w *Watcher) recordReached(ctx context.Context, c Container) error {
	err := w.rt.Reach(ctx, c.ID)
	switch {
	case ctx.Err() != nil || errors.Is(err, runtime.ErrUnavailable) || err != nil && c.State == Claimed:
		return nil // a later comparison finds it, or the release of its claim
	case err != nil:
		reason, _ := rootcause.Of(err)
		_, err = w.store.UpdateContainer(ctx, BeginDestroy(c.ID, []State{Idle}, reason))
		return err
	}
	_, err = w.store.UpdateContainer(ctx, Note(c.ID, c.State, func(c *Container) {
		if c.IsUnreachable() {
			c.Health, c.Reason = Healthy, ""
		}
	}, activity.Event{Type: activity.ContainerReached, Message: "container responds again"}))
	return err
}
