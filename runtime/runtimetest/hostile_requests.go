package runtimetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
)

// An attack on requests lasts until it has published that many events, and until the
// server got that many requests that claim to be of a hook.
const (
	minPublished = 60
	minForged    = 3
)

// attackServed has the main process attack. If the attack is aimed at the requests
// that the container sends, they are served while it lasts: until many of them have
// arrived, and a hook's request was answered.
func (l *target) attackServed(a attack) error {
	if !a.Requests {
		l.attack(a)
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := &attackedServer{begun: time.Now(), ended: make(chan struct{})}
	go func() { // ends with the context
		defer close(s.ended)
		s.err = l.rt.ServeRequests(ctx, l.id, 1, s.handle)
	}()
	l.attack(a)
	hooks, err := l.awaitRequests(s)
	cancel()
	select {
	case <-s.ended:
	case <-time.After(callTimeout):
		return &reachedError{"ServeRequests did not end with its context"}
	}
	if wrong := s.check(); wrong != "" {
		return &reachedError{wrong}
	}
	if err == nil {
		l.results.addNote(a, l.variant, fmt.Sprintf("%d requests in %s, %d of them events, %d forged and %d of hooks",
			s.total, time.Since(s.begun).Round(time.Millisecond), s.published, s.forged, hooks))
	}
	return err
}

// awaitRequests waits until the attack has lasted long enough, and returns how many
// requests of hooks were answered. It returns an error if the container stops to send
// requests.
func (l *target) awaitRequests(s *attackedServer) (hooks int, err error) {
	for {
		result, err := l.exec(runtime.Command{Args: []string{"/.hostler/bin/hostler", "claim"}})
		if err != nil {
			return hooks, err
		}
		if result.OK() {
			hooks++
		}
		if hooks > 0 && s.isEnough() {
			return hooks, nil
		}
		if time.Since(s.begun) > callTimeout {
			return hooks, &reachedError{fmt.Sprintf("in %s, not enough requests have arrived, or been answered: %+v", callTimeout, result)}
		}
		select {
		case <-s.ended:
			return hooks, fmt.Errorf("ServeRequests: %w", s.err)
		default:
		}
	}
}

// attackedServer is the server of the requests of an attack.
type attackedServer struct {
	begun time.Time
	ended chan struct{} // closed when err is set
	err   error         // of ServeRequests

	mu                       sync.Mutex // guards what follows
	total, published, forged int
	wrong                    string
}

// handle answers a request. What is not as an intact program in the container sends
// it is recorded.
func (s *attackedServer) handle(_ context.Context, r runtime.Request, respond func(runtime.Response)) {
	s.mu.Lock()
	s.total++
	if r.Name == "event.publish" {
		s.published++
	}
	isForged := r.Name == "claim" && strings.HasPrefix(r.ID, "garbage")
	if isForged {
		s.forged++
	}
	isHooks := r.Name == "claim" && !isForged
	if len(r.ID) > runtime.MaxRequestID || len(r.Name) > runtime.MaxRequestName || len(r.Body) > runtime.MaxRequestBody ||
		r.Fence != 1 || r.FromHook != isHooks || !isHooks && r.RunID != "" {
		s.wrong = fmt.Sprintf("the server got a request that no process can send: %.500q", fmt.Sprintf("%+v", r))
	}
	s.mu.Unlock()
	respond(runtime.Response{Body: []byte("{}")})
}

// isEnough reports whether the attack has lasted long enough.
func (s *attackedServer) isEnough() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.published >= minPublished && s.forged >= minForged
}

// The rate of requests that a server allows a container.
const (
	requestBurst     = 80
	requestPerSecond = 25
)

// check returns what was wrong with the requests, or "".
func (s *attackedServer) check() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := time.Since(s.begun)
	if s.wrong == "" && float64(s.total) > requestBurst+requestPerSecond*took.Seconds() {
		s.wrong = fmt.Sprintf("the server got %d requests in %s", s.total, took)
	}
	return s.wrong
}
