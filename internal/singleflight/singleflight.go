// Package singleflight shares one call among concurrent callers that want the
// same. The first caller for a key runs the call; the others wait for its
// result.
//
// It promises that there is at most one call for a key at a time, that a call's
// context outlives its caller and ends with a cause, and that every waiter gets
// the result. Callers decide whether a result also holds for them.
package singleflight

import (
	"context"
	"errors"
	"sync"
)

// errInterrupted is the result of a call whose function did not return.
var errInterrupted = errors.New("the call was interrupted")

// Group holds the calls in progress. K identifies what is called, A describes a
// call, R is its result. The zero value is ready for use by many goroutines.
type Group[K comparable, A, R any] struct {
	mu     sync.Mutex // guards the fields below
	calls  map[K]*Call[A, R]
	closed error // why calls are canceled when they start
}

// Call is a call in progress.
type Call[A, R any] struct {
	// Arg is what the first caller has passed to Join.
	Arg A

	ctx    context.Context //nolint:containedctx // it ends with the call
	cancel context.CancelCauseFunc
	end    func()
	done   chan struct{} // closed when the fields below are set
	result R
	err    error
}

// Join returns the call in progress for the key. Without one it starts one,
// with the values of ctx, and first is true: the caller must End it.
func (g *Group[K, A, R]) Join(ctx context.Context, k K, arg A) (c *Call[A, R], first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.calls[k]; c != nil {
		return c, false
	}
	c = &Call[A, R]{Arg: arg, done: make(chan struct{}), err: errInterrupted}
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if g.closed != nil {
		c.cancel(g.closed)
	}
	c.end = func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.calls, k)
	}
	if g.calls == nil {
		g.calls = map[K]*Call[A, R]{}
	}
	g.calls[k] = c
	return c, true
}

// Find returns the call in progress for the key, or nil.
func (g *Group[K, A, R]) Find(k K) *Call[A, R] {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls[k]
}

// FindFunc returns a call in progress whose Arg matches, or nil.
func (g *Group[K, A, R]) FindFunc(match func(A) bool) *Call[A, R] {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.calls {
		if match(c.Arg) {
			return c
		}
	}
	return nil
}

// CancelAll cancels the calls in progress.
func (g *Group[K, A, R]) CancelAll(cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.calls {
		c.cancel(cause)
	}
}

// Close is CancelAll, also for every later call.
func (g *Group[K, A, R]) Close(cause error) {
	g.mu.Lock()
	g.closed = cause
	g.mu.Unlock()
	g.CancelAll(cause)
}

// Context returns the context of the call's work. It ends when the call is
// canceled, with the cause, and when the call ends.
func (c *Call[A, R]) Context() context.Context { return c.ctx }

// Cancel ends the context of the call's work.
func (c *Call[A, R]) Cancel(cause error) { c.cancel(cause) }

// SetResult sets the result, which waiters get at the End.
func (c *Call[A, R]) SetResult(result R, err error) { c.result, c.err = result, err }

// End ends the call and wakes its waiters. A later Join starts a new call. A
// call that ends without SetResult has failed.
func (c *Call[A, R]) End() {
	c.cancel(nil)
	c.end()
	close(c.done)
}

// Done returns a channel that is closed when the call has ended.
func (c *Call[A, R]) Done() <-chan struct{} { return c.done }

// Wait waits until the call has ended, or returns the cause when ctx ends
// first.
func (c *Call[A, R]) Wait(ctx context.Context) error {
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Result returns the result of a call that has ended.
func (c *Call[A, R]) Result() (R, error) { return c.result, c.err }
