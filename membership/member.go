package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/runtime"
)

// Options are the options of a Member.
type Options struct {
	Host string // for display in the database and in logs of other servers
	// Exit ends the process at once, without any cleanup: another server has
	// taken over.
	Exit func()
}

// Member is this server, as one of several on a database.
type Member struct {
	db      Store
	log     *slog.Logger
	options Options
	lease   lease
	leads   atomic.Bool   // from the end of a successful campaign to the begin of Resign
	renewed chan struct{} // receives after renewals; holds one
}

// New returns a member that has not registered. It does not hold a lease.
func New(db Store, log *slog.Logger, o Options) *Member {
	return &Member{db: db, log: log, options: o, lease: lease{clock: newClock()}, renewed: make(chan struct{}, 1)}
}

// Register registers this server with the database. It has to be followed by
// Renew within LeaseTime.
func (m *Member) Register(ctx context.Context) error {
	begin := m.lease.clock()
	r, err := m.db.Register(ctx, m.options.Host)
	if err != nil {
		return err
	}
	m.recordRenewal(begin, r.StartedAt)
	return nil
}

// Renew renews the lease at every HeartbeatInterval until ctx ends, or until the
// server was fenced: then it calls Exit. An attempt that fails or is not answered
// is repeated soon. It has to run until Leave is called,
// also while the server stops: otherwise another server would take over work
// that is still running.
func (m *Member) Renew(ctx context.Context) {
	for {
		delay := HeartbeatInterval
		err := m.renew(ctx)
		switch {
		case errors.Is(err, ErrFenced), errors.Is(err, ErrReplaced):
			m.lease.giveUp()
			m.log.Error("fenced by another server; exiting", "error", err)
			m.options.Exit()
			return
		case err != nil && ctx.Err() == nil:
			m.log.Warn("lease renewal failed; retrying", "error", err)
			delay = renewRetryDelay
		}
		if flow.Sleep(ctx, delay) != nil {
			return
		}
	}
}

// renew makes one attempt to renew the lease.
func (m *Member) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, renewTimeout, fmt.Errorf("no answer within %s", renewTimeout))
	defer cancel()
	begin := m.lease.clock()
	at, err := m.db.Renew(ctx, m.leads.Load())
	if errors.Is(err, ErrReplaced) && !m.leads.Load() { // it has resigned in the meantime
		at, err = m.db.Renew(ctx, false)
	}
	if err != nil {
		return err
	}
	m.recordRenewal(begin, at)
	return nil
}

// recordRenewal records a renewal, and wakes what judges other servers: it does
// so only when its own lease was just renewed.
func (m *Member) recordRenewal(begin reading, at time.Time) {
	m.lease.renewed(begin, at)
	select {
	case m.renewed <- struct{}{}:
	default:
	}
}

// awaitRenewal waits for the next renewal, or returns the cause of the end of
// ctx.
func (m *Member) awaitRenewal(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-m.renewed:
		return context.Cause(ctx)
	}
}

// Leave is the last step of a server. From here on it does not use the engine.
// Its remaining work is taken over at once, and so is the leadership if it still
// has it, which it does when OnLead did not end in time: nothing of that work can
// write any more when another server leads.
func (m *Member) Leave(ctx context.Context) error {
	m.lease.giveUp()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), LeaseTime)
	defer cancel()
	return m.db.Deregister(ctx)
}

// CheckLease returns an error if another server may have taken over from this
// one.
func (m *Member) CheckLease() error {
	if !m.lease.isHeld() {
		return fmt.Errorf("%w: this server's lease has expired, so it does not use the engine", runtime.ErrUnavailable)
	}
	return nil
}

// Leads reports whether this server leads, and holds its lease.
func (m *Member) Leads() bool { return m.leads.Load() && m.lease.isHeld() }
