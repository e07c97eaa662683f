package testenv

import (
	"context"
	"errors"
	"testing"
	"time"
)

const (
	minPoll = time.Millisecond
	maxPoll = 50 * time.Millisecond
	// failMargin is how long before the test binary's deadline a wait fails, so
	// that the test reports what it waited for and its cleanup has time to run.
	failMargin = time.Minute
)

// Await returns the next value of ch, or the zero value once ch is closed. Its
// only limit is the deadline of the test binary (go test -timeout): shortly
// before that, it fails the test with what it waited for. A
// machine that is slow is no reason to fail, so it takes no bound of its own.
//
// Call it in the test's goroutine. In a bubble of testing/synctest, where a wait
// that cannot end is a deadlock, the bubble reports it.
func Await[T any](tb testing.TB, ch <-chan T, what string) T {
	tb.Helper()
	limit, stop := limitOf(tb)
	defer stop()
	select {
	case v := <-ch:
		return v
	case <-limit:
	}
	select {
	case v := <-ch: // ready, although the limit has passed
		return v
	default:
	}
	tb.Fatalf("%s: not before the test's deadline", what)
	panic("unreachable")
}

// AwaitTrue waits until cond returns true, with the limit of [Await]. It calls
// cond again and again, and is for states of other processes and engines that no
// channel announces. The test's goroutine calls cond.
func AwaitTrue(tb testing.TB, what string, cond func() bool) {
	tb.Helper()
	limit, stop := limitOf(tb)
	defer stop()
	for delay := minPoll; !cond(); delay = min(2*delay, maxPoll) {
		select {
		case <-time.After(delay):
		case <-limit:
			tb.Fatalf("%s: not before the test's deadline", what)
		}
	}
}

// Context returns a context with the limit of [Await], for calls that wait. It is
// not canceled before the cleanup of the test.
func Context(tb testing.TB) context.Context {
	ctx := context.WithoutCancel(tb.Context())
	deadline, ok := deadlineOf(tb)
	if !ok {
		return ctx
	}
	ctx, cancel := context.WithTimeoutCause(ctx, leftUntil(deadline), errors.New("the test's deadline"))
	tb.Cleanup(cancel)
	return ctx
}

// limitOf returns a channel that receives a value shortly before the deadline of
// the test binary; nil if there is no deadline.
func limitOf(tb testing.TB) (<-chan time.Time, func()) {
	deadline, ok := deadlineOf(tb)
	if !ok {
		return nil, func() {}
	}
	timer := time.NewTimer(leftUntil(deadline))
	return timer.C, func() { timer.Stop() }
}

// leftUntil returns how long a test may wait before that deadline.
func leftUntil(deadline time.Time) time.Duration {
	left := time.Until(deadline)
	return left - min(left/10, failMargin)
}

// deadlineOf returns the deadline of the test binary. A benchmark has none, and
// one in a bubble panics because the clocks differ.
func deadlineOf(tb testing.TB) (deadline time.Time, ok bool) {
	t, ok := tb.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return time.Time{}, false
	}
	defer func() {
		if recover() != nil {
			deadline, ok = time.Time{}, false
		}
	}()
	return t.Deadline()
}
