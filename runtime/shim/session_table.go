package shim

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
)

// Sessions holds a backend's sessions, one per container ID. Its methods may be
// called by multiple goroutines.
type Sessions struct {
	options Options

	// mu guards the fields below. It is never held during I/O.
	mu     sync.Mutex
	byID   map[string]*Session
	closed bool
}

// Options are what sessions need from their backend.
type Options struct {
	// Secret is what the containers' keys are derived from.
	Secret []byte
	// Dial connects to the program in a container, as type Dial does in one. The
	// stream may implement LivenessChecker, and must if the engine can leave it
	// open after the container has ended.
	Dial func(ctx context.Context, id string) (stream io.ReadWriteCloser, version int, err error)
	// CheckRunning queries the engine. It returns nil if the engine reports the
	// container as running. Its errors are those of Dial.
	CheckRunning func(ctx context.Context, id string) error
	// UnresponsiveTimeout is how long a container that the engine reports as
	// running may leave requests unanswered before it is ErrTainted. Zero means
	// DefaultUnresponsiveTimeout.
	UnresponsiveTimeout time.Duration
	// MayChange is called before every attempt to change a container or to run
	// a command in it. Its error ends the call. Nil allows everything.
	MayChange func() error
}

// NewSessions returns Sessions without opening any.
func NewSessions(o Options) *Sessions {
	return &Sessions{options: o, byID: make(map[string]*Session)}
}

// Get returns the only session with a container, which opens on first use.
// After Close, Get returns a closed session.
func (all *Sessions) Get(id string) *Session {
	all.mu.Lock()
	defer all.mu.Unlock()
	s, ok := all.byID[id]
	if ok {
		return s
	}
	o := all.options
	dial := o.Dial
	o.Dial = func(ctx context.Context, id string) (io.ReadWriteCloser, int, error) {
		stream, version, err := dial(ctx, id)
		if errors.Is(err, runtime.ErrNotFound) {
			all.Remove(id) // a container that disappeared leaves no session
		}
		return stream, version, err
	}
	s = newSession(id, o)
	if all.closed {
		_ = s.Close() // nothing is open, so nothing can fail
		return s
	}
	all.byID[id] = s
	return s
}

// Remove removes the session with a destroyed container. It does not close the
// session: a caller that waits on it dials again and so gets the container's
// state.
func (all *Sessions) Remove(id string) {
	all.mu.Lock()
	s := all.byID[id]
	delete(all.byID, id)
	all.mu.Unlock()
	if s != nil {
		s.Disconnect()
	}
}

// Close ends all sessions. The containers keep running.
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
