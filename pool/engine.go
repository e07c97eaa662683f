package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/hostler/hostler/runtime"
)

// An engine that hangs fails no call and reports no exit. So it is asked at intervals:
// within engineInterval and engineTimeout its hanging is known and logged. A late answer
// may be due to load, so no idle container is given out after engineGrace only, and
// work that has begun is ended after workGrace.
const (
	engineInterval = 2 * time.Second
	engineRetry    = time.Second // the interval while it does not respond
	engineTimeout  = 2500 * time.Millisecond
	engineGrace    = 3 * time.Second
	workGrace      = 15 * time.Second
	probeTimeout   = 5 * time.Second
)

var (
	errEngineTimeout = fmt.Errorf("%w: no response within %s", runtime.ErrUnavailable, engineTimeout)
	errProbeTimeout  = fmt.Errorf("%w: no response within %s", runtime.ErrUnavailable, probeTimeout)
)

// Engine knows whether the container engine responds.
type Engine struct {
	rt  runtime.Observer
	log *slog.Logger
	// responds is called when the engine responds again.
	responds func()

	mu     sync.Mutex // guards the fields below
	err    error      // why it does not respond; nil while it does
	since  time.Time  // when it has not responded for the first time
	bounds map[*engineBound]struct{}
}

// engineBound is work that ends when the engine does not respond after its deadline.
type engineBound struct {
	deadline time.Time
	cancel   context.CancelCauseFunc
}

func newEngine(rt runtime.Observer, log *slog.Logger, responds func()) *Engine {
	return &Engine{rt: rt, log: log, responds: responds, bounds: map[*engineBound]struct{}{}}
}

// Run asks the engine until ctx ends.
func (e *Engine) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := e.ask(ctx, errEngineTimeout, engineTimeout); ctx.Err() == nil {
			e.record(err)
		}
		interval := engineInterval
		if e.Err() != nil {
			interval = engineRetry
		}
		wait := time.NewTimer(interval)
		select {
		case <-wait.C:
		case <-ctx.Done():
		}
		wait.Stop()
	}
	return nil
}

// Probe returns why the engine does not respond, also if that is not known yet.
func (e *Engine) Probe(ctx context.Context) error {
	if err := e.Err(); err != nil {
		return err
	}
	return e.ask(ctx, errProbeTimeout, probeTimeout)
}

// ask returns why the engine does not respond within a time, which is the cause then.
func (e *Engine) ask(ctx context.Context, cause error, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, cause)
	defer cancel()
	// The container does not exist, so the cost does not grow with the pools.
	_, err := e.rt.Status(ctx, uuid.Nil.String())
	switch {
	case errors.Is(err, runtime.ErrNotFound):
		return nil
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && !errors.Is(err, runtime.ErrUnavailable):
		return fmt.Errorf("%w: %w", runtime.ErrUnavailable, err)
	}
	return err
}

// record records an answer.
func (e *Engine) record(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.err
	e.err = err
	switch {
	case err == nil && before != nil:
		e.log.Info("the container engine responds again", "after", time.Since(e.since).Round(time.Millisecond).String())
		e.responds()
	case err != nil && before == nil:
		e.since = time.Now()
		e.log.Warn("the container engine does not respond", "error", err)
	}
	if e.downFor(workGrace) == nil {
		return
	}
	for b := range e.bounds {
		if time.Now().After(b.deadline) {
			b.cancel(e.err)
		}
	}
}

// Err returns why the engine did not respond the last time, an ErrUnavailable, or nil.
func (e *Engine) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// Down is Err once the engine has not responded for so long that load is no reason.
func (e *Engine) Down() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.downFor(engineGrace)
}

// downFor returns why the engine has not responded for so long. The caller holds the mutex.
func (e *Engine) downFor(grace time.Duration) error {
	if e.err == nil || time.Since(e.since) < grace {
		return nil
	}
	return e.err
}

// Bound returns a context that ends with Err as its cause, once the deadline has
// passed and the engine has not responded for workGrace. The caller calls end.
func (e *Engine) Bound(ctx context.Context, deadline time.Time) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	b := &engineBound{deadline, cancel}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bounds[b] = struct{}{}
	return ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.bounds, b)
		cancel(nil)
	}
}
