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

// lease is what a server knows of its own life: until when the others believe
// that it is alive, as far as its own clocks can tell.
type lease struct {
	previous    previousServer            // locked for as long as this server lives
	lastRenewed atomic.Pointer[time.Time] // when the last renewal that was answered had begun
	graceUntil  atomic.Pointer[time.Time] // until then this server thinks nobody dead
}

// renewed notes that a renewal which began at that moment was answered. A
// server that was cut off from the database, or was stopped, cannot tell
// whether the others were too: it gives them time to say that they are alive.
func (l *lease) renewed(startedAt time.Time) {
	if last := l.lastRenewed.Load(); last != nil && elapsed(*last) > store.LeaseTime {
		until := time.Now().Add(store.LeaseTime * 2 / 3)
		l.graceUntil.Store(&until)
	}
	l.lastRenewed.Store(&startedAt)
}

// isHeld says whether nobody can have taken over from this server.
func (l *lease) isHeld() bool {
	last := l.lastRenewed.Load()
	return last != nil && elapsed(*last) < store.LeaseTime
}

// inGrace says whether it is too early to think that others are dead.
func (l *lease) inGrace() bool {
	until := l.graceUntil.Load()
	return until != nil && time.Now().Before(*until)
}

// elapsed is how long ago a moment was, by that clock of the machine which says
// more: one stands still while the machine is suspended, the other can be set.
func elapsed(t time.Time) time.Duration {
	return max(time.Since(t), time.Now().Round(0).Sub(t.Round(0)))
}

// fencedRuntime is a backend that changes nothing once this server may have been
// taken over from. The database refuses what such a server still writes; an
// engine does not know of it, and what was this server's container may be
// somebody else's. To its callers the engine does not answer: they undo
// nothing for that, and give nothing up.
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

// checkHeld is an error when this server may have been taken over from.
func (l *lease) checkHeld() error {
	if !l.isHeld() {
		return fmt.Errorf("%w: this server cannot say that it is alive, and leaves the engine alone", runtime.ErrUnavailable)
	}
	return nil
}

// leaseGate lets a backend look at the lease again before each attempt of a call
// that takes several. It is open on a database that this server has for itself.
type leaseGate struct{ lease atomic.Pointer[lease] }

func (g *leaseGate) checkHeld() error {
	if l := g.lease.Load(); l != nil {
		return l.checkHeld()
	}
	return nil
}
