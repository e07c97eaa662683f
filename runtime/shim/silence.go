package shim

import (
	"fmt"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
)

// DefaultUnresponsiveTimeout is Options.UnresponsiveTimeout when it is zero.
const DefaultUnresponsiveTimeout = 2 * time.Minute

// silence measures for how long a container that its engine reports as running
// has not answered. What an engine that does not answer leaves open counts for
// nothing. The zero value of the times means that nothing is unanswered.
type silence struct {
	limit time.Duration

	// mu guards what follows.
	mu        sync.Mutex
	handshake time.Time // the first attempt to open a session, of those that failed in a row
	request   time.Time // when the first request was lost since the last answer
	tainted   error     // set for good once the limit has passed
}

func newSilence(limit time.Duration) *silence {
	if limit <= 0 {
		limit = DefaultUnresponsiveTimeout
	}
	return &silence{limit: limit}
}

// answered notes an answer to a request.
func (s *silence) answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handshake, s.request = time.Time{}, time.Time{}
}

// opened notes a session that was opened. It is no answer to a request: a
// tenant that ends each session at its first request gains nothing.
func (s *silence) opened() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handshake = time.Time{}
}

// refused notes an attempt to open a session, begun at that time, that the
// container did not answer.
func (s *silence) refused(begun time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handshake.IsZero() {
		s.handshake = begun
	}
}

// lost notes a request that was lost with its session, which the program was
// last heard on at that time. Only here a session that opens each time is judged:
// when one opens again, the program may have been out of reach, and is asked once
// more.
func (s *silence) lost(heard time.Time) {
	s.mu.Lock()
	if s.request.IsZero() {
		s.request = heard
	}
	s.mu.Unlock()
	_ = s.err() // verdict tells
}

// unanswered notes a request on an open session of which nothing was heard since
// then, and returns what that means.
func (s *silence) unanswered(since time.Time) error {
	s.mu.Lock()
	if s.request.IsZero() || since.Before(s.request) {
		s.request = since
	}
	s.mu.Unlock()
	return s.err()
}

// err is ErrDoomed from when the limit has passed until for ever, else nil.
func (s *silence) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, since := range []time.Time{s.handshake, s.request} {
		if s.tainted == nil && !since.IsZero() && time.Since(since) >= s.limit {
			s.tainted = fmt.Errorf("%w: the engine reports it as running, and it has not answered for %s",
				runtime.ErrDoomed, s.limit)
		}
	}
	return s.tainted
}

// verdict is what err has returned for good, nil if nothing.
func (s *silence) verdict() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tainted
}
