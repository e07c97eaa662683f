package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// session is the one session with a container's shim, opened when first used.
func (r *Runtime) session(id string) (*shim.Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fmt.Errorf("%w: the connection to kubernetes was closed", runtime.ErrUnavailable)
	}
	s := r.sessions[id]
	if s == nil {
		s = shim.NewSession(func(ctx context.Context) (io.ReadWriteCloser, error) {
			return r.dial(ctx, id)
		}, shim.Token(r.secret, id))
		r.sessions[id] = s
	}
	return s, nil
}

// forget ends a session for good.
func (r *Runtime) forget(id string) {
	r.mu.Lock()
	s := r.sessions[id]
	delete(r.sessions, id)
	r.mu.Unlock()
	if s != nil {
		_ = s.Close() // nothing is left that could fail
	}
}

// dial runs the shim's bridge in the container and talks to it.
func (r *Runtime) dial(ctx context.Context, id string) (io.ReadWriteCloser, error) {
	if _, err := r.running(ctx, id); err != nil {
		if errors.Is(err, runtime.ErrNotFound) {
			r.forget(id) // a container that vanished leaves no session behind
		}
		return nil, err
	}
	s, err := r.run(id, shimPath, "connect")
	if err != nil {
		return nil, err
	}
	return &bridge{stream: s}, nil
}

// Exec is runtime.Execer.Exec. On an open session it asks nothing of the
// cluster.
func (r *Runtime) Exec(ctx context.Context, id string, cmd runtime.Command) (runtime.Result, error) {
	session, err := r.session(id)
	if err != nil {
		return runtime.Result{}, err
	}
	result, err := session.Exec(ctx, cmd)
	if err != nil {
		return result, fmt.Errorf("run a command in the container %s: %w", id, err)
	}
	return result, nil
}

// Outcome is runtime.Execer.Outcome.
func (r *Runtime) Outcome(ctx context.Context, id string, cmd runtime.Command) (runtime.Result, error) {
	session, err := r.session(id)
	if err != nil {
		return runtime.Result{}, err
	}
	result, err := session.Outcome(ctx, cmd)
	if err != nil {
		return result, fmt.Errorf("ask the container %s for an outcome: %w", id, err)
	}
	return result, nil
}

// Seal is runtime.Recycler.Seal. The cluster does not tell what has changed in
// a container; the shim looks for itself.
func (r *Runtime) Seal(ctx context.Context, id string) error {
	session, err := r.session(id)
	if err == nil {
		err = session.Seal(ctx, nil)
	}
	if err != nil {
		return fmt.Errorf("seal the container %s: %w", id, err)
	}
	return nil
}

// Wipe is runtime.Recycler.Wipe.
func (r *Runtime) Wipe(ctx context.Context, id string) error {
	session, err := r.session(id)
	if err == nil {
		err = session.Wipe(ctx, nil)
	}
	if err != nil {
		return fmt.Errorf("wipe the container %s: %w", id, err)
	}
	return nil
}

// Changed is runtime.Files.Changed.
func (r *Runtime) Changed(ctx context.Context, id string, dirs []string) (at time.Time, err error) {
	session, err := r.session(id)
	if err == nil {
		at, err = session.Changed(ctx, dirs)
	}
	if err != nil {
		return at, fmt.Errorf("look for changes in the container %s: %w", id, err)
	}
	return at, nil
}
