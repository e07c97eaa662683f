// Package dispatch calls handlers with the events of the activity log: those of
// this server and, where servers share a database, those of the others. It is
// the only way in which one service learns of a change that another one made.
//
// It promises that
//
//   - every event that is recorded while the dispatcher runs reaches the handlers
//     of its type, in the order of the log, without a read of the database where
//     the event was recorded by this server;
//   - where events cannot be read for a time, or were missed, every subscription
//     is asked to look at everything again (Resync), and so at the start;
//   - a handler that panics or blocks is reported. One that panics stops nothing.
//
// Events come in memory only: a server that was killed handles none of those it
// missed, but begins with Resync. Work that must be done exactly once for each
// event, also across kills, uses Follow with a cursor in the database.
package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/flow"
)

// Log is the activity log. Package store implements it.
type Log interface {
	// Changed returns a channel that is closed when events are recorded after
	// this call.
	Changed() <-chan struct{}
	// LastSeq returns the number of the newest event.
	LastSeq(ctx context.Context) (int64, error)
	// Events returns the page of events after a number.
	Events(ctx context.Context, f activity.Filter, after int64, limit int) (activity.Page, error)
}

// Subscription is what a service does on events. All its functions are called
// by one goroutine. They must not wait for anything: they set flags, send
// signals that never block, and cancel contexts. Only Resync may read records.
type Subscription struct {
	// Name is that of the service, for the log.
	Name string
	// On has the handler of each type of events.
	On map[activity.Type]func(activity.Event)
	// Flush is called after the handlers of consecutive events. The events of one
	// transaction are nearly always together. nil: nothing to do.
	Flush func()
	// Resync does what any event might have been the reason for. It is retried
	// until it succeeds. nil: nothing to do.
	Resync func(ctx context.Context) error
}

// batchSize is the maximum number of events that are read at once.
const batchSize = 500

// The delay before another attempt to read events, and how long handlers may
// take until they are reported as blocked.
const (
	retryDelay   = time.Second
	blockedAfter = 10 * time.Second
)

// Dispatcher calls the handlers of its subscriptions. Run it once.
type Dispatcher struct {
	log           Log
	subscriptions []Subscription
	logger        *slog.Logger

	after  int64 // the last event that was handled; -1 before the start
	resync bool  // events may have been missed
}

// New returns a dispatcher for the given subscriptions.
func New(log Log, logger *slog.Logger, subscriptions ...Subscription) *Dispatcher {
	return &Dispatcher{log: log, subscriptions: subscriptions, logger: logger, after: -1, resync: true}
}

// Run handles events until ctx ends. It begins at the end of the log. It returns
// when no handler is running.
func (d *Dispatcher) Run(ctx context.Context) error {
	Follow(ctx, d.log, d.logger, "events", d.advance)
	return nil
}

// Follow calls advance whenever there are events after those that it has
// handled, until ctx ends. advance handles events that a cursor in the database
// has not passed, in the transaction that moves the cursor, and reports whether
// there may be more. An error is logged and advance called again.
func Follow(ctx context.Context, log Log, logger *slog.Logger, name string, advance func(ctx context.Context) (more bool, err error)) {
	failing := false
	for ctx.Err() == nil {
		changed := log.Changed() // before the read, so that no event is missed
		more, err := advance(ctx)
		if err != nil {
			if !failing && ctx.Err() == nil {
				logger.Warn("handling events failed; retrying", "follower", name, "error", err)
			}
			failing = true
			_ = flow.Sleep(ctx, retryDelay) // the loop checks ctx
			continue
		}
		if failing {
			logger.Info("handling events continues", "follower", name)
			failing = false
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// advance handles the next events.
func (d *Dispatcher) advance(ctx context.Context) (more bool, err error) {
	if d.after < 0 {
		last, err := d.log.LastSeq(ctx)
		if err != nil {
			return false, fmt.Errorf("read the number of the last event: %w", err)
		}
		d.after = last
	}
	page, err := d.log.Events(ctx, activity.Filter{}, d.after, batchSize)
	if err != nil {
		d.resync = true
		return false, fmt.Errorf("read events: %w", err)
	}
	// Records are read after the end of the page: what changes later is in an
	// event that is read later. Retention may have been faster than this reader.
	if d.resync || page.OldestSeq > 0 {
		d.resync = true
		if err := d.resyncAll(ctx); err != nil {
			return false, err
		}
		d.resync = false
	}
	d.after = page.Next
	if err := d.handle(page.Items); err != nil {
		d.resync = true
		return false, err
	}
	return len(page.Items) == batchSize, nil
}

// resyncAll calls Resync of all subscriptions.
func (d *Dispatcher) resyncAll(ctx context.Context) error {
	for _, s := range d.subscriptions {
		if s.Resync == nil {
			continue
		}
		err := recovered(func() error { return s.Resync(ctx) })
		if err != nil {
			return fmt.Errorf("resync %s: %w", s.Name, err)
		}
	}
	return nil
}

// handle calls the handlers of consecutive events. It returns the first error
// of a handler that panicked, after it has called all others.
func (d *Dispatcher) handle(events []activity.Event) (failed error) {
	if len(events) == 0 {
		return nil
	}
	watchdog := time.AfterFunc(blockedAfter, func() {
		d.logger.Error("event handlers are blocked", "first", events[0].Seq, "last", events[len(events)-1].Seq)
	})
	defer watchdog.Stop()
	call := func(what, name string, f func()) {
		if err := recovered(func() error { f(); return nil }); err != nil && failed == nil {
			failed = fmt.Errorf("%s in %s: %w", what, name, err)
		}
	}
	for _, e := range events {
		for _, s := range d.subscriptions {
			if on := s.On[e.Type]; on != nil {
				call(string(e.Type), s.Name, func() { on(e) })
			}
		}
	}
	for _, s := range d.subscriptions {
		if s.Flush != nil {
			call("flush", s.Name, s.Flush)
		}
	}
	return failed
}

// recovered calls f and returns its panic as an error.
func recovered(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}
