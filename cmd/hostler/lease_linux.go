package main

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/store"
)

// lease is this server's view of its own lease: how long the other servers
// treat it as alive, by its own clocks.
type lease struct {
	previous    previousServer            // locked while this process exists
	lastRenewed atomic.Pointer[time.Time] // start of the last successful renewal
	graceUntil  atomic.Pointer[time.Time] // no server is treated as expired before
}

// renewed records a successful renewal that began at startedAt. A server that
// was suspended, or disconnected from the database, does not know whether the
// others were too. It gives them time to renew their leases.
func (l *lease) renewed(startedAt time.Time) {
	if last := l.lastRenewed.Load(); last != nil && elapsed(*last) > store.LeaseTime {
		until := time.Now().Add(store.LeaseTime * 2 / 3)
		l.graceUntil.Store(&until)
	}
	l.lastRenewed.Store(&startedAt)
}

// isHeld reports whether the lease is held: no other server can have taken over
// from this one.
func (l *lease) isHeld() bool {
	last := l.lastRenewed.Load()
	return last != nil && elapsed(*last) < store.LeaseTime
}

// inGrace reports whether it is too early to treat other servers as expired.
func (l *lease) inGrace() bool {
	until := l.graceUntil.Load()
	return until != nil && time.Now().Before(*until)
}

// elapsed returns the time since t, by the clock that shows more: the monotonic
// clock stops while the machine is suspended, and the wall clock can be set.
func elapsed(t time.Time) time.Duration {
	return max(time.Since(t), time.Now().Round(0).Sub(t.Round(0)))
}

// fencedRuntime is a backend that changes nothing unless the lease is held. The
// database rejects the writes of a server that was taken over from. An engine
// does not, and this server's container may belong to another server by then.
// Callers get runtime.ErrUnavailable, so they undo nothing and discard nothing.
type fencedRuntime struct {
	backend
	lease *lease
}

func (l fencedRuntime) Create(ctx context.Context, spec runtime.Spec) error {
	return l.guard(func() error { return l.backend.Create(ctx, spec) })
}

func (l fencedRuntime) Start(ctx context.Context, id string) error {
	return l.guard(func() error { return l.backend.Start(ctx, id) })
}

func (l fencedRuntime) Restart(ctx context.Context, id string, fence int64) error {
	return l.guard(func() error { return l.backend.Restart(ctx, id, fence) })
}

func (l fencedRuntime) Stop(ctx context.Context, id string, fence int64) error {
	return l.guard(func() error { return l.backend.Stop(ctx, id, fence) })
}

func (l fencedRuntime) Destroy(ctx context.Context, id string) error {
	return l.guard(func() error { return l.backend.Destroy(ctx, id) })
}

func (l fencedRuntime) CopyIn(ctx context.Context, id, dir string, tar io.Reader) error {
	return l.guard(func() error { return l.backend.CopyIn(ctx, id, dir, tar) })
}

func (l fencedRuntime) RecordBaseline(ctx context.Context, id string, fence int64) error {
	return l.guard(func() error { return l.backend.RecordBaseline(ctx, id, fence) })
}

func (l fencedRuntime) Wipe(ctx context.Context, id string, fence int64) error {
	return l.guard(func() error { return l.backend.Wipe(ctx, id, fence) })
}

func (l fencedRuntime) Exec(ctx context.Context, id string, cmd runtime.Command) (res runtime.Result, err error) {
	err = l.guard(func() error {
		res, err = l.backend.Exec(ctx, id, cmd)
		return err
	})
	return res, err
}

func (l fencedRuntime) guard(change func() error) error {
	if err := l.lease.checkHeld(); err != nil {
		return err
	}
	return change()
}

// checkHeld returns an error if another server may have taken over from this
// one.
func (l *lease) checkHeld() error {
	if !l.isHeld() {
		return fmt.Errorf("%w: this server's lease has expired, so it does not use the engine", runtime.ErrUnavailable)
	}
	return nil
}

// leaseGate lets a backend check the lease again before each attempt of a call
// that is retried. Without a shared database it is always open.
type leaseGate struct{ lease atomic.Pointer[lease] }

func (g *leaseGate) checkHeld() error {
	if l := g.lease.Load(); l != nil {
		return l.checkHeld()
	}
	return nil
}
