package shim

import (
	"context"
	"errors"
	"io"
	"sync"
)

// Sessions are a backend's sessions, one for each container by its id. Its
// methods may be called by many goroutines at once.
type Sessions struct {
	dial   func(ctx context.Context, id string) (io.ReadWriteCloser, error)
	secret []byte

	// mu guards what follows. It is held for no I/O.
	mu     sync.Mutex
	byID   map[string]*Session
	closed bool
}

// NewSessions opens none. The containers' tokens come from the secret.
func NewSessions(secret []byte, dial func(ctx context.Context, id string) (io.ReadWriteCloser, error)) *Sessions {
	return &Sessions{dial: dial, secret: secret, byID: make(map[string]*Session)}
}

// With is the one session with a container, opened when first used. After Close
// it is a closed one.
func (all *Sessions) With(id string) *Session {
	all.mu.Lock()
	defer all.mu.Unlock()
	s, known := all.byID[id]
	if known {
		return s
	}
	s = NewSession(func(ctx context.Context) (io.ReadWriteCloser, error) {
		return all.dial(ctx, id)
	}, Token(all.secret, id))
	if all.closed {
		_ = s.Close() // nothing is open that could fail
		return s
	}
	all.byID[id] = s
	return s
}

// Forget drops the session with a container that is gone, and does not close
// it: who waits on it dials again, and so learns what became of the container.
func (all *Sessions) Forget(id string) {
	all.mu.Lock()
	s := all.byID[id]
	delete(all.byID, id)
	all.mu.Unlock()
	if s != nil {
		s.hangUp()
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
