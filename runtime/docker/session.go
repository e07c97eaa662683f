package docker

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/docker/docker/api/types/container"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

var _ shim.LivenessChecker = bridge{}

// dial runs the shim's bridge in the container and talks to it.
func (r *Runtime) dial(ctx context.Context, id string) (io.ReadWriteCloser, int, error) {
	c, version, err := r.lookupCompatible(ctx, id)
	if err != nil {
		if errors.Is(err, runtime.ErrNotFound) {
			r.sessions.Remove(id) // a container that vanished leaves no session behind
		}
		return nil, 0, err
	}
	stream, err := r.startProgram(ctx, c.ID, shim.BinaryPath, "connect")
	if err != nil {
		return nil, 0, err
	}
	return bridge{stream: stream, id: id, startedAt: c.State.StartedAt}, version, nil
}

// CheckRunning is shim.Checker.Running.
func (b bridge) CheckRunning(ctx context.Context) error {
	c, err := b.r.lookupRunning(ctx, b.id)
	if c.ContainerJSONBase != nil && c.State.Paused {
		return nil // its processes are there, and may go on
	}
	if err == nil && c.State.StartedAt != b.startedAt {
		return fmt.Errorf("%w: it was started again", runtime.ErrNotRunning)
	}
	return err
}

// lookupRunning finds a container that commands can be run in.
func (r *Runtime) lookupRunning(ctx context.Context, id string) (container.InspectResponse, error) {
	c, err := r.lookup(ctx, id)
	if err != nil {
		return c, err
	}
	switch {
	case c.State.Paused:
		return c, fmt.Errorf("%w: it is paused", runtime.ErrNotRunning)
	case !c.State.Running || c.State.Restarting || c.State.Dead:
		return c, fmt.Errorf("%w: it is %s", runtime.ErrNotRunning, c.State.Status)
	}
	return c, nil
}

// lookupCompatible is running for a container whose program this server speaks to, with
// the version that its record has.
func (r *Runtime) lookupCompatible(ctx context.Context, id string) (container.InspectResponse, int, error) {
	c, err := r.lookupRunning(ctx, id)
	if err != nil {
		return c, 0, err
	}
	version, err := shim.Protocols().Parse(c.Config.Labels[labelProtocol])
	return c, version, err
}

// checkRunning is nil when the engine reports the container as running.
func (r *Runtime) checkRunning(ctx context.Context, id string) error {
	_, err := r.lookupRunning(ctx, id)
	return err
}

// Exec is runtime.Execer.Exec.
func (r *Runtime) Exec(ctx context.Context, id string, cmd runtime.Command) (runtime.Result, error) {
	result, err := r.sessions.Get(id).Exec(ctx, cmd)
	if err != nil {
		return result, fmt.Errorf("run a command in the container %s: %w", id, err)
	}
	return result, nil
}

// WaitResult is runtime.Execer.Outcome.
func (r *Runtime) WaitResult(ctx context.Context, id string, cmd runtime.Command) (runtime.Result, error) {
	result, err := r.sessions.Get(id).WaitResult(ctx, cmd)
	if err != nil {
		return result, fmt.Errorf("ask the container %s for an outcome: %w", id, err)
	}
	return result, nil
}

// RecordBaseline is runtime.Recycler.RecordBaseline.
func (r *Runtime) RecordBaseline(ctx context.Context, id string, fence int64) error {
	if err := r.sessions.Get(id).RecordBaseline(ctx, fence, nil); err != nil {
		return fmt.Errorf("seal the container %s: %w", id, err)
	}
	return nil
}

// Wipe is runtime.Recycler.Wipe. The engine is not asked what has changed: it
// compares times of modification, which every owner of a file can set.
func (r *Runtime) Wipe(ctx context.Context, id string, fence int64) error {
	tail := func(ctx context.Context, lines int64, to io.Writer) error { return r.copyTail(ctx, id, lines, to) }
	if err := r.sessions.Get(id).WipeWithLogMarks(ctx, fence, tail); err != nil {
		return fmt.Errorf("wipe the container %s: %w", id, err)
	}
	return nil
}
