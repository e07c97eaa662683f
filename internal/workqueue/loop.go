package workqueue

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hostler/hostler/internal/backoff"
)

// Look does what is due of a kind of work, or adds it to a queue, and returns when
// the next of it will be due; zero if only Wake or WakeAt can report that.
type Look func(ctx context.Context) (next time.Time, err error)

// Loop looks for what is due: when it starts, at the time that the last look has
// returned, and when it is woken. In between it reads nothing.
//
// Whatever may bring an earlier time wakes it. A look that begins after that finds
// it: a change is recorded first, and its event wakes the loop then. The times of
// records are those of the wall clock.
type Loop struct {
	what    string
	look    Look
	retries backoff.Policy
	log     *slog.Logger
	changed chan struct{} // buffers one signal: at is earlier

	mu sync.Mutex // guards at
	at time.Time  // of the next look; zero: when it is woken
}

// maxSleep bounds how late a loop notices that its machine was suspended, or that the
// clock was set. It then looks at the clock only.
const maxSleep = 10 * time.Second

// NewLoop returns a loop, which looks for nothing before Run. What it does is named in
// the log of failures: a look that fails, or panics, is repeated with backoff, however
// often the loop is woken.
func NewLoop(what string, look Look, retries backoff.Policy, log *slog.Logger) *Loop {
	return &Loop{what: what, look: look, retries: retries, log: log, changed: make(chan struct{}, 1)}
}

// Wake has the loop look as soon as possible. It never blocks.
func (l *Loop) Wake() { l.WakeAt(time.Now()) }

// WakeAfter has the loop look when d has passed, or earlier.
func (l *Loop) WakeAfter(d time.Duration) { l.WakeAt(time.Now().Add(d)) }

// WakeAt has the loop look at a time, or earlier. The zero time is never.
func (l *Loop) WakeAt(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at.IsZero() || !l.at.IsZero() && !at.Before(l.at) {
		return
	}
	l.at = at
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Run looks until ctx ends. Only one Run may run at a time.
func (l *Loop) Run(ctx context.Context) error {
	retries := l.retries.Retries()
	l.Wake()
	for l.sleep(ctx) {
		next, err := l.try(ctx)
		if err == nil {
			retries.Reset()
			l.WakeAt(next)
			continue
		}
		if ctx.Err() == nil {
			l.log.Warn(l.what+" failed; retrying", "error", err)
		}
		if retries.Sleep(ctx) != nil {
			return nil
		}
		l.Wake()
	}
	return nil
}

// sleep returns when the next look is due, or with false when ctx ends.
func (l *Loop) sleep(ctx context.Context) bool {
	for ctx.Err() == nil {
		wait, isKnown := l.take()
		if isKnown && wait <= 0 {
			return true
		}
		var timeout <-chan time.Time
		if isKnown {
			timeout = time.After(min(wait, maxSleep))
		}
		select {
		case <-ctx.Done():
		case <-l.changed:
		case <-timeout:
		}
	}
	return false
}

// take returns the time until the next look. If that is due, what wakes the loop from
// now on causes another one.
func (l *Loop) take() (wait time.Duration, isKnown bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.IsZero() {
		return 0, false
	}
	// A time that was computed here is reached by the monotonic clock, also if the wall
	// clock was set back, and by the wall clock, also if the machine was suspended.
	now := time.Now()
	if wait = min(l.at.Sub(now), l.at.Round(0).Sub(now)); wait <= 0 {
		l.at = time.Time{}
	}
	return wait, true
}

// try looks, and returns a panic as an error.
func (l *Loop) try(ctx context.Context) (next time.Time, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			l.log.Error(l.what+" panicked; retrying", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	return l.look(ctx)
}
