package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/pool"
)

// defaultWait is how long a claim waits for a container that is being made when
// its caller did not say.
const defaultWait = 2 * time.Minute

// errNotRecorded says that the claim failed before it was recorded.
var errNotRecorded = errors.New("nothing was recorded")

// reserve gets a container for the claim, or finds the one that the tenant
// holds. When none is idle it waits in line: for as long as the caller asked,
// or, when the caller did not say, as long as one is being made.
func (a *acquisition) reserve(ctx context.Context) error {
	queued := a.pools.Queue.Waiting(a.claim.Workload) > 0
	err := a.tryReserve(ctx, queued)
	if !errors.Is(err, ErrNoIdleContainer) {
		return err
	}
	waiter := a.pools.Queue.Add(a.claim.Workload)
	defer waiter.Remove()
	a.pools.Wake(a.claim.Workload)

	timeout := a.request.Wait
	if timeout <= 0 {
		timeout = defaultWait
	}
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	for {
		if err := a.failFast(ctx, waiter); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return a.waitCanceled(ctx)
		case <-deadline.C:
			return a.waitTimedOut(ctx)
		case <-waiter.Ready():
		}
		if !waiter.IsFirst() {
			continue
		}
		if err := a.tryReserve(ctx, false); !errors.Is(err, ErrNoIdleContainer) {
			return err
		}
		// What is idle may be kept for somebody else: the fill loop makes room.
		a.pools.WakeFiller(a.claim.Workload)
	}
}

// tryReserve asks the database once.
func (a *acquisition) tryReserve(ctx context.Context, enqueueOnly bool) error {
	if a.record.Draining {
		enqueueOnly = true
	}
	c, err := a.store.Reserve(context.WithoutCancel(ctx), Reservation{
		Claim: a.claim.ID, Workload: a.claim.Workload, Tenant: a.claim.Tenant,
		Revision: a.record.Revision, Reuse: a.current.Pool.Reuse, EnqueueOnly: enqueueOnly,
	})
	if err != nil && !errors.Is(err, ErrNoIdleContainer) {
		if a.claim.State == "" {
			a.triggerSweep() // it may have been recorded all the same
			err = fmt.Errorf("%w: %w", errNotRecorded, err)
		}
		return fmt.Errorf("reserve a container: %w", err)
	}
	a.existing = c.ID != a.claim.ID
	switch {
	case a.existing && c.State == Pending && a.IsOwnedByPeer(c):
		return fmt.Errorf("%w: %w", errNotRecorded, &peerOwnedError{c})
	case a.existing && c.State == Pending:
		// Nobody works on it: one flight at a time makes a tenant's claims, and
		// this is it. Storage failed when its own was to be ended.
		if err := a.failStale(context.WithoutCancel(ctx), c, serverStoppedReason); err != nil {
			return fmt.Errorf("%w: %w", errNotRecorded, err)
		}
		return a.tryReserve(ctx, enqueueOnly)
	case a.existing && c.State != Active:
		return fmt.Errorf("%w: %w: claim %s is %s", errNotRecorded, ErrReleasing, c.ID, c.State)
	}
	a.claim = c
	if err == nil && !a.existing && c.Container == "" {
		err = ErrNoIdleContainer
	}
	return err
}

// waitCanceled is why a claim ends whose wait was cut off: its caller left, unless
// somebody else released it.
func (a *acquisition) waitCanceled(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", errCallerCanceled, cause)
	}
	return cause
}

// failFast says why waiting any longer makes no sense: for a caller who did not
// ask to wait, because nothing is being made that could become theirs; for
// anybody, because the pool is being emptied.
func (a *acquisition) failFast(ctx context.Context, waiter *pool.Waiter) error {
	u, err := a.unavailability(ctx, waiter.Position())
	if err != nil {
		return err
	}
	if u.Reason == NotReady || u.Reason != Draining && a.request.Wait > 0 {
		return nil
	}
	return u
}

// waitTimedOut is the error of a claim whose time is up.
func (a *acquisition) waitTimedOut(ctx context.Context) error {
	u, err := a.unavailability(ctx, 0)
	if err != nil {
		return err
	}
	return u
}

// unavailability says what the pool lacks at this moment for the claim that has ahead
// others before it in the line.
func (a *acquisition) unavailability(ctx context.Context, ahead int) (*UnavailableError, error) {
	s, err := a.pools.Status(ctx, a.claim.Workload)
	if err != nil {
		return nil, err
	}
	u := &UnavailableError{Workload: s.Workload, RetryAfter: time.Second}
	claimed := pool.EffectiveSize(s.Containers[pool.Claimed], s.Kept, s.MaxSize)
	switch {
	case s.Fill.State == pool.FillDraining:
		u.Reason, u.Detail = Draining, "the pool is draining"
		u.RetryAfter = 30 * time.Second
	case s.Fill.Failures > 0:
		u.Reason = FillFailing
		u.Detail = fmt.Sprintf("the last container could not be made: %s", s.Fill.LastError)
		if s.Fill.NextTry != nil {
			u.RetryAfter = max(time.Until(*s.Fill.NextTry), time.Second)
		}
	case claimed+ahead >= s.MaxSize:
		u.Reason = Exhausted
		u.Detail = fmt.Sprintf("%d of max_size %d containers are claimed and %d claims wait", claimed, s.MaxSize, s.Waiting)
	default:
		u.Reason = NotReady
		u.Detail = fmt.Sprintf("%d containers are being made and none is ready", s.Containers[pool.Creating])
		if s.Newer > 0 {
			u.Detail += fmt.Sprintf("; %d were made by a newer server, and this one cannot speak to them", s.Newer)
		}
	}
	return u, nil
}
