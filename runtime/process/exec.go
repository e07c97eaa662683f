package process

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/runtime"
)

// Exec is runtime.Execer.Exec.
func (r *Runtime) Exec(ctx context.Context, id string, cmd runtime.Command) (runtime.Result, error) {
	if _, err := r.find(id); err != nil {
		return runtime.Result{}, fmt.Errorf("exec: %w", err)
	}
	result, err := r.sessions.With(id).Exec(ctx, cmd)
	if err != nil {
		return result, fmt.Errorf("exec in container %s: %w", id, err)
	}
	return result, nil
}

// Outcome is runtime.Execer.Outcome.
func (r *Runtime) Outcome(ctx context.Context, id string, cmd runtime.Command) (runtime.Result, error) {
	if _, err := r.find(id); err != nil {
		return runtime.Result{}, fmt.Errorf("ask for an outcome: %w", err)
	}
	result, err := r.sessions.With(id).Outcome(ctx, cmd)
	if err != nil {
		return result, fmt.Errorf("ask container %s for an outcome: %w", id, err)
	}
	return result, nil
}

// Seal is runtime.Recycler.Seal. Init walks the container's folder by itself.
func (r *Runtime) Seal(ctx context.Context, id string, fence int64) error {
	if _, err := r.find(id); err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	if err := r.sessions.With(id).Seal(ctx, fence, nil); err != nil {
		return fmt.Errorf("container %s: %w", id, err)
	}
	return nil
}

// Wipe is runtime.Recycler.Wipe, for the container's own folder. What a command
// has done elsewhere on the machine is out of reach.
func (r *Runtime) Wipe(ctx context.Context, id string, fence int64) error {
	p, err := r.find(id)
	if err != nil {
		return fmt.Errorf("wipe: %w", err)
	}
	if err := r.sessions.With(id).Wipe(ctx, fence); err != nil {
		return fmt.Errorf("container %s: %w", id, err)
	}
	if err := p.markLog(); err != nil {
		return unavailable("note how long the log of "+id+" is", err)
	}
	return nil
}
