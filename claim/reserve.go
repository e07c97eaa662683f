package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/pool"
)

// patience is how long a claim waits for a container that is being made when
// its caller did not say.
const patience = 2 * time.Minute

// errBeforeRow says that the claim failed before it was recorded.
var errBeforeRow = errors.New("nothing was recorded")

// reserve gets a container for the claim, or finds the one that the tenant
// holds. When none is idle it waits in line: for as long as the caller asked,
// or, when the caller did not say, as long as one is being made.
func (m *making) reserve(ctx context.Context) error {
	queued := m.pools.Queue.Waiting(m.claim.Workload) > 0
	err := m.ask(ctx, queued)
	if !errors.Is(err, ErrNoneIdle) {
		return err
	}
	ticket := m.pools.Queue.Enter(m.claim.Workload)
	defer ticket.Leave()
	m.pools.Wake(m.claim.Workload)

	limit := m.request.Wait
	if limit <= 0 {
		limit = patience
	}
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		if err := m.hopeless(ctx, ticket); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return m.left(ctx)
		case <-deadline.C:
			return m.unavailable(ctx)
		case <-ticket.Turn():
		}
		if !ticket.First() {
			continue
		}
		if err := m.ask(ctx, false); !errors.Is(err, ErrNoneIdle) {
			return err
		}
		// What is idle may be kept for somebody else: the fill loop makes room.
		m.pools.Fill(m.claim.Workload)
	}
}

// ask asks the database once.
func (m *making) ask(ctx context.Context, queue bool) error {
	if m.record.Draining {
		queue = true
	}
	c, err := m.store.Reserve(context.WithoutCancel(ctx), Reservation{
		Claim: m.claim.ID, Workload: m.claim.Workload, Tenant: m.claim.Tenant,
		Revision: m.record.Revision, Reuse: m.current.Pool.Reuse, Queue: queue,
	})
	if err != nil && !errors.Is(err, ErrNoneIdle) {
		if m.claim.State == "" {
			m.sweepSoon() // it may have been recorded all the same
			err = fmt.Errorf("%w: %w", errBeforeRow, err)
		}
		return fmt.Errorf("reserve a container: %w", err)
	}
	m.held = c.ID != m.claim.ID
	switch {
	case m.held && c.State == Pending && m.Elsewhere(c):
		return fmt.Errorf("%w: %w", errBeforeRow, &elsewhereError{c})
	case m.held && c.State == Pending:
		// Nobody works on it: one flight at a time makes a tenant's claims, and
		// this is it. Storage failed when its own was to be ended.
		if err := m.abandon(context.WithoutCancel(ctx), c, stoppedReason); err != nil {
			return fmt.Errorf("%w: %w", errBeforeRow, err)
		}
		return m.ask(ctx, queue)
	case m.held && c.State != Active:
		return fmt.Errorf("%w: %w: claim %s is %s", errBeforeRow, ErrReleasing, c.ID, c.State)
	}
	m.claim = c
	if err == nil && !m.held && c.Container == "" {
		err = ErrNoneIdle
	}
	return err
}

// left is why a claim ends whose wait was cut off: its caller left, unless
// somebody else released it.
func (m *making) left(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", errCallerLeft, cause)
	}
	return cause
}

// hopeless says why waiting any longer makes no sense: for a caller who did not
// ask to wait, because nothing is being made that could become theirs; for
// anybody, because the pool is being emptied.
func (m *making) hopeless(ctx context.Context, t *pool.Ticket) error {
	u, err := m.why(ctx, t.Place())
	if err != nil {
		return err
	}
	if u.Reason == NotReady || u.Reason != Draining && m.request.Wait > 0 {
		return nil
	}
	return u
}

// unavailable is the error of a claim whose time is up.
func (m *making) unavailable(ctx context.Context) error {
	u, err := m.why(ctx, 0)
	if err != nil {
		return err
	}
	return u
}

// why says what the pool lacks at this moment for the claim that has ahead
// others before it in the line.
func (m *making) why(ctx context.Context, ahead int) (*UnavailableError, error) {
	s, err := m.pools.Status(ctx, m.claim.Workload)
	if err != nil {
		return nil, err
	}
	u := &UnavailableError{Workload: s.Workload, RetryAfter: time.Second}
	claimed := pool.Counted(s.Containers[pool.Claimed], s.Kept, s.MaxSize)
	switch {
	case s.Fill.State == pool.FillStopped:
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
