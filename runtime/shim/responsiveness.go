package shim

import (
	"fmt"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
)

// DefaultUnresponsiveTimeout is the default of Options.UnresponsiveTimeout.
const DefaultUnresponsiveTimeout = 2 * time.Minute

// responsiveness measures how long a container that its engine reports as
// running has not answered. Time during which the engine itself does not answer
// does not count. The zero values of the times mean that nothing is unanswered.
type responsiveness struct {
	timeout time.Duration

	// mu guards the fields below.
	mu              sync.Mutex
	openFailedSince time.Time // the first failed attempt to open a session since the last success
	unansweredSince time.Time // when the first request was lost since the last response
	tainted         error     // set permanently once the timeout has passed
}

func newResponsiveness(timeout time.Duration) *responsiveness {
	if timeout <= 0 {
		timeout = DefaultUnresponsiveTimeout
	}
	return &responsiveness{timeout: timeout}
}

// recordResponse records a response to a request.
func (s *responsiveness) recordResponse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openFailedSince, s.unansweredSince = time.Time{}, time.Time{}
}

// recordOpened records that a session was opened. It does not count as a
// response: a tenant that ends each session at its first request gains nothing.
func (s *responsiveness) recordOpened() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openFailedSince = time.Time{}
}

// recordOpenFailure records a failed attempt to open a session, started at that
// time, that the container did not answer.
func (s *responsiveness) recordOpenFailure(start time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.openFailedSince.IsZero() {
		s.openFailedSince = start
	}
}

// recordLost records a request that was lost with its session. The program was
// last seen at lastSeen. Only this function evaluates a session that opens each
// time: when one opens again, the program may have been unreachable, and gets
// one more request.
func (s *responsiveness) recordLost(lastSeen time.Time) {
	s.mu.Lock()
	if s.unansweredSince.IsZero() {
		s.unansweredSince = lastSeen
	}
	s.mu.Unlock()
	_ = s.check() // taintedErr returns the result
}

// recordUnanswered records a request on an open session without any message
// since then. It returns the resulting error, if any.
func (s *responsiveness) recordUnanswered(since time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unansweredSince.IsZero() || since.Before(s.unansweredSince) {
		s.unansweredSince = since
	}
	return s.checkLocked()
}

// check returns ErrTainted permanently once the timeout has passed, else nil.
func (s *responsiveness) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checkLocked()
}

// checkLocked is check for a caller that holds s.mu. Without that, a response
// between the update and the check would leave a timed-out request without an
// error.
func (s *responsiveness) checkLocked() error {
	for _, since := range []time.Time{s.openFailedSince, s.unansweredSince} {
		if s.tainted == nil && !since.IsZero() && time.Since(since) >= s.timeout {
			s.tainted = fmt.Errorf("%w: the engine reports it as running, but it has not answered for %s",
				runtime.ErrTainted, s.timeout)
		}
	}
	return s.tainted
}

// taintedErr returns the permanent error that check recorded, or nil.
func (s *responsiveness) taintedErr() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tainted
}
