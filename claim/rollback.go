package claim

import (
	"context"
	"errors"
	"fmt"

	"github.com/hostler/hostler/internal/rootcause"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

// errUnusable is returned when the reserved container could not be prepared and
// was discarded. The claim may try another.
var errUnusable = errors.New("container unusable")

// errUnreached is the errUnusable of a container that could not be reached. It is
// unchanged, and no other claim gets it until it can be.
var errUnreached = fmt.Errorf("%w: it could not be reached", errUnusable)

// rollback reverts the reservation: it detaches the container from the claim and has it destroyed. An
// unchanged container is returned to the pool when the engine or the sink was
// unavailable: an outage must not cost the files in the containers. A single
// unresponsive container is also returned, behind the others; it is destroyed
// when it has been unresponsive for so long that it is tainted. Unless it is
// the tenant's own, the claim tries another. An unchanged container of the
// tenant's own is also returned when it cannot be given an environment.
func (a *acquisition) rollback(ctx context.Context, cause error) error {
	if a.claim.Container == "" {
		return nil // none was reserved
	}
	if errors.Is(cause, errUnreached) {
		if err := a.returnToPool(ctx, true); err != nil {
			return err
		}
		return errUnreached
	}
	_, isSyncError := errors.AsType[*SyncError](cause)
	if !a.changed && (isSyncError || errors.Is(cause, runtime.ErrUnavailable) || a.isUnsupported(cause)) {
		unresponsive := errors.Is(cause, runtime.ErrUnresponsive) && a.claim.Source != Affinity
		if err := a.returnToPool(ctx, false); err != nil || !unresponsive {
			return err
		}
		return errUnusable
	}
	a.changed = false
	reason, chain := rootcause.Of(cause)
	destroy := pool.DestroyFailed("", []pool.State{pool.Claimed}, "unusable for a claim: "+reason, chain...)
	if err := a.detach(ctx, &destroy); err != nil {
		return fmt.Errorf("discard container %s: %w", a.claim.Container, err)
	}
	if isSyncError {
		return nil // every container has the same sink
	}
	return errUnusable
}

// returnToPool returns the unchanged container to the pool.
func (a *acquisition) returnToPool(ctx context.Context, isUnreachable bool) error {
	isFresh := a.claim.Source == Fresh
	set := func(c *pool.Container) {
		if isFresh {
			c.Tenant = "" // it never held files of the tenant
		}
	}
	transition := pool.Return("container returned unused", set)
	if isUnreachable {
		transition = pool.ReturnUnreachable(set)
	}
	if err := a.detach(ctx, &transition); err != nil {
		return fmt.Errorf("return container %s to the pool: %w", a.claim.Container, err)
	}
	return nil
}

// detach removes the container from the claim, which stays pending.
func (a *acquisition) detach(ctx context.Context, container *pool.Transition) error {
	detached := Own(a.claim.ID, Pending)
	detached.Container = container
	detached.Set = func(c *Claim) { c.Container, c.Revision, c.Source, c.Endpoint = "", "", "", runtime.Endpoint{} }
	c, err := a.store.UpdateClaim(ctx, detached)
	if err == nil {
		a.claim = c
	}
	return err
}
