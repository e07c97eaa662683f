package process

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/runtime"
)

// Exec is runtime.Execer.Exec.
func (r *Runtime) Exec(ctx context.Context, id string, cmd runtime.Command) (runtime.Result, error) {
	if _, err := r.lookup(id); err != nil {
		return runtime.Result{}, fmt.Errorf("exec: %w", err)
	}
	result, err := r.sessions.Get(id).Exec(ctx, cmd)
	if err != nil {
		return result, fmt.Errorf("exec in container %s: %w", id, err)
	}
	return result, nil
}

// WaitResult is runtime.Execer.WaitResult.
func (r *Runtime) WaitResult(ctx context.Context, id string, cmd runtime.Command) (runtime.Result, error) {
	if _, err := r.lookup(id); err != nil {
		return runtime.Result{}, fmt.Errorf("request an outcome: %w", err)
	}
	result, err := r.sessions.Get(id).WaitResult(ctx, cmd)
	if err != nil {
		return result, fmt.Errorf("request an outcome from container %s: %w", id, err)
	}
	return result, nil
}

// RecordBaseline is runtime.Recycler.RecordBaseline. Init walks the container's
// directory itself.
func (r *Runtime) RecordBaseline(ctx context.Context, id string, fence int64) error {
	if _, err := r.lookup(id); err != nil {
		return fmt.Errorf("record the baseline: %w", err)
	}
	if err := r.sessions.Get(id).RecordBaseline(ctx, fence, nil); err != nil {
		return fmt.Errorf("container %s: %w", id, err)
	}
	return nil
}

// Wipe is runtime.Recycler.Wipe, for the container's own directory. It does not
// cover what a command has done elsewhere on the machine.
func (r *Runtime) Wipe(ctx context.Context, id string, fence int64) error {
	p, err := r.lookup(id)
	if err != nil {
		return fmt.Errorf("wipe: %w", err)
	}
	if err := r.sessions.Get(id).Wipe(ctx, fence); err != nil {
		return fmt.Errorf("container %s: %w", id, err)
	}
	if err := p.writeLogMark(); err != nil {
		return unavailableError("record the log size of "+id, err)
	}
	return nil
}
