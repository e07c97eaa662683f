package shim

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// Sessions are a backend's sessions, one for each container by its id. Its
// methods may be called by many goroutines at once.
type Sessions struct {
	options Options

	// mu guards what follows. It is held for no I/O.
	mu     sync.Mutex
	byID   map[string]*Session
	closed bool
}

// Options are what sessions need of their backend.
type Options struct {
	// Secret is what the containers' tokens are derived from.
	Secret []byte
	// Dial connects to the program in a container: see Dial.
	Dial func(ctx context.Context, id string) (stream io.ReadWriteCloser, version int, err error)
	// CheckRunning asks the engine, and is nil when it reports the container as
	// running. Its errors are those of Dial.
	CheckRunning func(ctx context.Context, id string) error
	// UnresponsiveTimeout is for how long a container that the engine reports
	// as running may leave requests unanswered before it is ErrTainted. Zero is
	// DefaultUnresponsiveTimeout.
	UnresponsiveTimeout time.Duration
	// MayChange is asked before every attempt to change a container or to run
	// a command in it. Its error ends the call. Nil allows all.
	MayChange func() error
}

// NewSessions opens none.
func NewSessions(o Options) *Sessions {
	return &Sessions{options: o, byID: make(map[string]*Session)}
}

// Get is the one session with a container, opened when first used. After Close
// it is a closed one.
func (all *Sessions) Get(id string) *Session {
	all.mu.Lock()
	defer all.mu.Unlock()
	s, ok := all.byID[id]
	if ok {
		return s
	}
	s = newSession(id, all.options)
	if all.closed {
		_ = s.Close() // nothing is open that could fail
		return s
	}
	all.byID[id] = s
	return s
}

// Remove drops the session with a container that is gone, and does not close
// it: who waits on it dials again, and so learns what became of the container.
func (all *Sessions) Remove(id string) {
	all.mu.Lock()
	s := all.byID[id]
	delete(all.byID, id)
	all.mu.Unlock()
	if s != nil {
		s.disconnect()
	}
}

// Close ends all sessions. The containers run on.
func (all *Sessions) Close() error {
	all.mu.Lock()
	open := all.byID
	all.byID, all.closed = nil, true
	all.mu.Unlock()
	var errs []error
	for _, s := range open {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
