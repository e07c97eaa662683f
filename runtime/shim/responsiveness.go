package shim

import (
	"fmt"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
)

// DefaultUnresponsiveTimeout is Options.UnresponsiveTimeout when it is zero.
const DefaultUnresponsiveTimeout = 2 * time.Minute

// responsiveness measures for how long a container that its engine reports as running
// has not answered. What an engine that does not answer leaves open counts for
// nothing. The zero value of the times means that nothing is unanswered.
type responsiveness struct {
	timeout time.Duration

	// mu guards what follows.
	mu              sync.Mutex
	openFailedSince time.Time // the first attempt to open a session, of those that failed in a row
	unansweredSince time.Time // when the first request was lost since the last answer
	tainted         error     // set for good once the limit has passed
}

func newResponsiveness(timeout time.Duration) *responsiveness {
	if timeout <= 0 {
		timeout = DefaultUnresponsiveTimeout
	}
	return &responsiveness{timeout: timeout}
}

// recordResponse notes an answer to a request.
func (s *responsiveness) recordResponse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openFailedSince, s.unansweredSince = time.Time{}, time.Time{}
}

// recordOpened notes a session that was opened. It is no answer to a request: a
// tenant that ends each session at its first request gains nothing.
func (s *responsiveness) recordOpened() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openFailedSince = time.Time{}
}

// recordOpenFailure notes an attempt to open a session, begun at that time, that the
// container did not answer.
func (s *responsiveness) recordOpenFailure(start time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.openFailedSince.IsZero() {
		s.openFailedSince = start
	}
}

// recordLost notes a request that was lost with its session, which the program was
// last heard on at that time. Only here a session that opens each time is judged:
// when one opens again, the program may have been out of reach, and is asked once
// more.
func (s *responsiveness) recordLost(lastSeen time.Time) {
	s.mu.Lock()
	if s.unansweredSince.IsZero() {
		s.unansweredSince = lastSeen
	}
	s.mu.Unlock()
	_ = s.check() // verdict tells
}

// recordUnanswered notes a request on an open session of which nothing was heard since
// then, and returns what that means.
func (s *responsiveness) recordUnanswered(since time.Time) error {
	s.mu.Lock()
	if s.unansweredSince.IsZero() || since.Before(s.unansweredSince) {
		s.unansweredSince = since
	}
	s.mu.Unlock()
	return s.check()
}

// check is ErrTainted from when the limit has passed until for ever, else nil.
func (s *responsiveness) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, since := range []time.Time{s.openFailedSince, s.unansweredSince} {
		if s.tainted == nil && !since.IsZero() && time.Since(since) >= s.timeout {
			s.tainted = fmt.Errorf("%w: the engine reports it as running, and it has not answered for %s",
				runtime.ErrTainted, s.timeout)
		}
	}
	return s.tainted
}

// taintedErr is what err has returned for good, nil if nothing.
func (s *responsiveness) taintedErr() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tainted
}
