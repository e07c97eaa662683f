package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/quota"
	"github.com/hostler/hostler/workload"
)

// DefaultWait is how long a claim waits for a container that is being created
// when the caller did not set a wait time.
const DefaultWait = 2 * time.Minute

// waitOf returns how long the caller of a request waits.
func waitOf(r Request) time.Duration {
	switch {
	case r.NoWait:
		return 0
	case r.Wait > 0:
		return r.Wait
	}
	return DefaultWait
}

// errNotRecorded is returned when a claim failed before it was recorded.
var errNotRecorded = errors.New("claim not recorded")

// reserve reserves a container for the claim. With the tenant's existing claim
// there is nothing left to do.
func (a *acquisition) reserve(ctx context.Context) error {
	err := a.findContainer(ctx)
	if err != nil && a.claim.State != "" && errors.Is(err, ctx.Err()) {
		return a.waitCanceled(ctx) // also if a read was interrupted
	}
	if err != nil {
		return err
	}
	if a.existing {
		return flow.ErrStop
	}
	a.beginWork()
	return nil
}

// findContainer reserves a container for the claim, or finds the tenant's
// existing claim. When no container is idle it waits in the queue for the caller's wait
// time. Without one it waits as long as a container is being created, and with
// NoWait not at all.
func (a *acquisition) findContainer(ctx context.Context) error {
	queued := a.pools.Queue.Waiting(a.claim.Workload) > 0
	err := a.tryReserve(ctx, queued)
	if !errors.Is(err, ErrNoIdleContainer) {
		return err
	}
	if a.request.NoWait {
		return a.waitTimedOut(ctx)
	}
	waiter := a.pools.Queue.Add(a.claim.Workload, a.began)
	defer waiter.Remove()
	a.pools.WakeFiller(a.claim.Workload) // no event: the queue is in memory

	deadline := time.NewTimer(max(time.Until(a.waitsUntil), 0))
	defer deadline.Stop()
	for {
		if err := a.failFast(ctx, waiter); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return a.waitTimedOut(ctx)
		case <-waiter.Ready():
		}
		if err := ctx.Err(); err != nil { // both were ready
			return err
		}
		if !waiter.IsFirst() {
			continue
		}
		waiter.SetReserving(true)
		if err := a.tryReserve(ctx, false); !errors.Is(err, ErrNoIdleContainer) {
			return err
		}
		waiter.SetReserving(false)
		// Idle containers may be reserved for another tenant. The fill loop makes
		// room. There is no event of an attempt that finds nothing.
		a.pools.WakeFiller(a.claim.Workload)
	}
}

// tryReserve tries to reserve a container once. When the claim is queued behind
// others, it gets only a container that is kept for its tenant, which none of
// them could get.
func (a *acquisition) tryReserve(ctx context.Context, queued bool) error {
	if err := a.refresh(ctx); err != nil {
		return err
	}
	digest, err := a.digest(a.claim.ID, a.request.Environment)
	if err != nil {
		return err
	}
	isKept := a.current.Pool.Reuse == workload.ReuseSameTenant
	c, err := a.store.Reserve(context.WithoutCancel(ctx), Reservation{
		Claim: a.claim.ID, Traceparent: a.request.Traceparent, Environment: digest, Actor: a.request.Actor, Request: a.request.ID, Workload: a.claim.Workload, Tenant: a.claim.Tenant,
		Revision: a.record.Revision, Reuse: a.current.Pool.Reuse,
		Labels: a.request.Labels, Parameters: a.terms.parameters, Sealed: a.terms.sealed, Lifetime: a.request.ExpiresIn, Refusal: a.terms.refusal,
		EnqueueOnly: a.record.Draining || a.pools.Engine.Down() != nil || queued && !isKept, OwnOnly: queued,
	})
	if a.terms.refusal != nil && errors.Is(err, a.terms.refusal) {
		return fmt.Errorf("%w: %w", errNotRecorded, err)
	}
	if err != nil && !errors.Is(err, ErrNoIdleContainer) {
		if exceeded, ok := errors.AsType[*quota.ExceededError](err); ok {
			return fmt.Errorf("%w: %w", errNotRecorded, exceeded)
		}
		if a.claim.State == "" {
			a.markUnrecorded(a.claim.ID) // it may have been recorded despite the error
			err = fmt.Errorf("%w: %w", errNotRecorded, err)
		}
		return fmt.Errorf("reserve a container: %w", err)
	}
	a.existing = c.ID != a.claim.ID
	switch {
	case a.existing && c.State == Pending && a.IsOwnedByPeer(c):
		return fmt.Errorf("%w: %w", errNotRecorded, &peerOwnedError{c})
	case a.existing && c.State == Pending:
		// It is stale: there is one call per tenant, and this is it. The
		// failed claim could not be recorded because storage failed.
		if err := a.failStale(context.WithoutCancel(ctx), c, serverStoppedReason); err != nil {
			return fmt.Errorf("%w: %w", errNotRecorded, err)
		}
		return a.tryReserve(ctx, queued)
	case a.existing && c.State != Active:
		return fmt.Errorf("%w: %w: claim %s is %s", errNotRecorded, ErrReleasing, c.ID, c.State)
	}
	if a.existing {
		if err := a.checkEnvironment(c, a.request); err != nil {
			return fmt.Errorf("%w: %w", errNotRecorded, err)
		}
	}
	a.claim = c
	if err == nil && !a.existing && c.Container == "" {
		err = ErrNoIdleContainer
	}
	return err
}

// refresh reads the workload again, if time may have passed since it was read: a
// claim that waits for a container of an old revision may never get one, and all
// that are queued behind it wait as long.
func (a *acquisition) refresh(ctx context.Context) error {
	if a.claim.State == "" {
		return nil // this is the first attempt
	}
	// Like the reservation, it is not canceled: after a container was unusable, the
	// work continues without the caller.
	w, record, err := a.pools.Catalog.Current(context.WithoutCancel(ctx), a.claim.Workload)
	if err != nil {
		return err
	}
	a.current, a.record = w, record
	return nil
}

// waitCanceled returns the error of a canceled wait: errCallerCanceled, or the
// cause when the claim was released. Whatever ended the caller, as the end of its
// credential, is the end of no other caller.
func (a *acquisition) waitCanceled(ctx context.Context) error {
	if cause := a.workEnded(); cause != nil {
		return cause
	}
	return fmt.Errorf("%w: %w", errCallerCanceled, context.Cause(ctx))
}

// failFast returns an error when further waiting cannot succeed: for a caller
// without a wait time, when no container is being created for it; for every
// caller, when the pool is draining or its workload is being deleted.
func (a *acquisition) failFast(ctx context.Context, waiter *pool.Waiter) error {
	if err := a.pools.Engine.Down(); err != nil && a.request.Wait <= 0 {
		return err
	}
	u, err := a.unavailability(ctx, waiter.Position())
	if err != nil {
		return err
	}
	if u.Reason == NotReady || u.Reason != Draining && u.Reason != Deleting && a.request.Wait > 0 {
		return nil
	}
	return u
}

// waitTimedOut returns the error of a claim whose wait time has elapsed. While the
// engine does not respond, that is the reason, whatever else the pool lacks.
func (a *acquisition) waitTimedOut(ctx context.Context) error {
	if err := a.pools.Engine.Err(); err != nil {
		return err
	}
	u, err := a.unavailability(ctx, 0)
	if err != nil {
		return err
	}
	return u
}

// unavailability returns why no container is available now for a claim with
// ahead claims before it in the queue. After a failed creation the one in progress
// may succeed, until many have failed in a row.
func (a *acquisition) unavailability(ctx context.Context, ahead int) (*UnavailableError, error) {
	s, err := a.pools.Status(ctx, a.claim.Workload)
	if err != nil {
		return nil, err
	}
	u := &UnavailableError{Workload: s.Workload, RetryAfter: time.Second}
	claimed := pool.EffectiveSize(s.Containers[pool.Claimed], s.Kept, s.MaxSize)
	switch {
	case s.Deleting:
		u.Reason, u.Detail = Deleting, "the workload is being deleted"
		u.RetryAfter = 30 * time.Second
	case s.Fill.State == pool.FillDraining:
		u.Reason, u.Detail = Draining, "the pool is draining"
		u.RetryAfter = 30 * time.Second
	case s.Fill.State == pool.FillFailing, s.Fill.Failures > 0 && s.Containers[pool.Creating] == 0:
		u.Reason = FillFailing
		u.Detail = fmt.Sprintf("container creation failed: %s", s.Fill.LastError)
		if s.Fill.NextTry != nil {
			u.RetryAfter = max(time.Until(*s.Fill.NextTry), time.Second)
		}
	case claimed+ahead >= s.MaxSize:
		u.Reason = Exhausted
		u.Detail = fmt.Sprintf("%d of max_size %d containers are claimed, %d claims are waiting", claimed, s.MaxSize, s.Waiting)
	default:
		u.Reason = NotReady
		u.Detail = fmt.Sprintf("%d containers are being created and none is ready", s.Containers[pool.Creating])
		if s.Fill.Failures > 0 {
			u.Detail += fmt.Sprintf("; the last creation failed: %s", s.Fill.LastError)
		}
		if s.Newer > 0 {
			u.Detail += fmt.Sprintf("; %d were created by a newer server with an unsupported protocol", s.Newer)
		}
	}
	return u, nil
}
