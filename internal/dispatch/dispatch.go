// Package dispatch calls handlers with the events of the activity log: those of
// this server and, where servers share a database, those of the others. It is
// the only way in which one service learns of a change that another one made.
//
// It promises that
//
//   - every event that is recorded while the dispatcher runs reaches the handlers
//     of its type, in the order of the log, without a read of the database where
//     the event was recorded by this server;
//   - where events cannot be read for a time, were missed, or were lost by the
//     database in a failover, every subscription is asked to look at everything
//     again (Resync), and so at the start;
//   - a handler that panics or blocks is reported. One that panics stops and
//     delays nothing, and its subscription looks at everything again. So it is
//     with a Resync that panics or fails.
//
// Events come in memory only: a server that was killed handles none of those it
// missed, but begins with Resync. Work that must be done exactly once for each
// event, also across kills, uses Follow with a cursor in the database.
package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"math"
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
	// until it succeeds; events are handled in the meantime. nil: what Flush does.
	Resync func(ctx context.Context) error
}

// batchSize is the maximum number of events that are read at once.
const batchSize = 500

// The delay before another attempt to read events or to resync, and how long
// handlers may take until they are reported as blocked.
const (
	retryDelay   = time.Second
	blockedAfter = 10 * time.Second
)

// Dispatcher calls the handlers of its subscriptions. Run it once.
type Dispatcher struct {
	log         Log
	subscribers []*subscriber
	logger      *slog.Logger

	after   int64 // the last event that was handled; -1 before the start
	rewinds int   // of the log, when that was read
	reads   failures
}

// subscriber is the state of a subscription.
type subscriber struct {
	Subscription
	pending  bool      // Resync is to be called
	retryAt  time.Time // not before
	failures failures
}

// New returns a dispatcher for the given subscriptions.
func New(log Log, logger *slog.Logger, subscriptions ...Subscription) *Dispatcher {
	d := &Dispatcher{log: log, logger: logger, after: -1, reads: failures{logger: logger, name: "events"}}
	for _, s := range subscriptions {
		if s.Resync == nil {
			flush := s.Flush
			s.Resync = func(context.Context) error {
				if flush != nil {
					flush()
				}
				return nil
			}
		}
		d.subscribers = append(d.subscribers, &subscriber{Subscription: s, failures: failures{logger: logger, name: s.Name}})
	}
	d.missed()
	return d
}

// Run handles events until ctx ends. It begins at the end of the log. It returns
// when no handler is running.
func (d *Dispatcher) Run(ctx context.Context) error {
	follow(ctx, d.log, d.advance)
	return nil
}

// Follow calls advance whenever there are events after those that it has
// handled, until ctx ends. advance handles events that a cursor in the database
// has not passed, in the transaction that moves the cursor, and reports whether
// there may be more. An error is logged and advance called again.
func Follow(ctx context.Context, log Log, logger *slog.Logger, name string, advance func(ctx context.Context) (more bool, err error)) {
	f := failures{logger: logger, name: name}
	follow(ctx, log, func(ctx context.Context) time.Duration {
		more, err := advance(ctx)
		f.report(ctx, err)
		switch {
		case err != nil:
			_ = flow.Sleep(ctx, retryDelay) // the loop checks ctx
			return 0
		case more:
			return 0
		}
		return untilChanged
	})
}

// untilChanged is longer than any wait for events.
const untilChanged = time.Duration(math.MaxInt64)

// follow calls advance until ctx ends: again when events are recorded, and at the
// latest after the time that it returns.
func follow(ctx context.Context, log Log, advance func(ctx context.Context) time.Duration) {
	for ctx.Err() == nil {
		changed := log.Changed() // before the read, so that no event is missed
		wait := advance(ctx)
		if wait <= 0 {
			continue
		}
		var retry <-chan time.Time
		if wait < untilChanged {
			retry = time.After(wait)
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-retry:
		}
	}
}

// failures logs the first of consecutive failures, and their end.
type failures struct {
	logger *slog.Logger
	name   string
	last   bool // the last attempt failed
}

func (f *failures) report(ctx context.Context, err error) {
	switch {
	case err == nil && f.last:
		f.logger.Info("handling events continues", "follower", f.name)
	case err != nil && !f.last && ctx.Err() == nil:
		f.logger.Warn("handling events failed; retrying", "follower", f.name, "error", err)
	}
	f.last = err != nil
}

// missed makes all subscriptions look at everything again.
func (d *Dispatcher) missed() {
	for _, s := range d.subscribers {
		s.pending = true
	}
}

// advance handles the next events. It returns after how long it is to be called
// again although there are no others.
func (d *Dispatcher) advance(ctx context.Context) time.Duration {
	page, err := d.read(ctx)
	d.reads.report(ctx, err)
	if err != nil {
		d.missed()
		_ = flow.Sleep(ctx, retryDelay) // the loop checks ctx
		return 0
	}
	if page.Rewinds != d.rewinds { // begin again at the end of the log
		d.after, d.rewinds = -1, page.Rewinds
		d.missed()
		return 0
	}
	if page.OldestSeq > 0 { // retention was faster than this reader
		d.missed()
	}
	// Records are read after the end of the page: what changes later is in an
	// event that is read later.
	for _, s := range d.subscribers {
		s.resync(ctx)
	}
	d.after = page.Next
	d.handle(ctx, page.Items)
	if len(page.Items) == batchSize {
		return 0
	}
	wait := untilChanged
	for _, s := range d.subscribers {
		if s.pending {
			wait = min(wait, max(time.Until(s.retryAt), time.Millisecond))
		}
	}
	return wait
}

// read reads the next events, at first those after the end of the log.
func (d *Dispatcher) read(ctx context.Context) (activity.Page, error) {
	if d.after < 0 {
		last, err := d.log.LastSeq(ctx)
		if err != nil {
			return activity.Page{}, fmt.Errorf("read the number of the last event: %w", err)
		}
		d.after = last
	}
	page, err := d.log.Events(ctx, activity.Filter{}, d.after, batchSize)
	if err != nil {
		return page, fmt.Errorf("read events: %w", err)
	}
	return page, nil
}

// resync calls Resync if that is pending.
func (s *subscriber) resync(ctx context.Context) {
	if !s.pending || time.Now().Before(s.retryAt) {
		return
	}
	s.pending = false
	s.call(ctx, "resync", func() error { return s.Resync(ctx) })
	if !s.pending {
		s.failures.report(ctx, nil)
	}
}

// call calls one function of the subscription. If that fails, it missed
// something, and looks at everything again.
func (s *subscriber) call(ctx context.Context, what string, f func() error) {
	if err := recovered(f); err != nil {
		s.failures.report(ctx, fmt.Errorf("%s in %s: %w", what, s.Name, err))
		s.pending, s.retryAt = true, time.Now().Add(retryDelay)
	}
}

// handle calls the handlers of consecutive events.
func (d *Dispatcher) handle(ctx context.Context, events []activity.Event) {
	if len(events) == 0 {
		return
	}
	watchdog := time.AfterFunc(blockedAfter, func() {
		d.logger.Error("event handlers are blocked", "first", events[0].Seq, "last", events[len(events)-1].Seq)
	})
	defer watchdog.Stop()
	for _, e := range events {
		for _, s := range d.subscribers {
			if on := s.On[e.Type]; on != nil {
				s.call(ctx, string(e.Type), func() error { on(e); return nil })
			}
		}
	}
	for _, s := range d.subscribers {
		if s.Flush != nil {
			s.call(ctx, "flush", func() error { s.Flush(); return nil })
		}
	}
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
