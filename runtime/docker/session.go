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

// dial runs the shim's bridge in the container and connects to it.
func (r *Runtime) dial(ctx context.Context, id string) (io.ReadWriteCloser, int, error) {
	c, version, err := r.lookupCompatible(ctx, id)
	if err != nil {
		if errors.Is(err, runtime.ErrNotFound) {
			r.sessions.Remove(id) // a container that disappeared leaves no session
		}
		return nil, 0, err
	}
	stream, err := r.startProgram(ctx, c.ID, shim.BinaryPath, "connect")
	if err != nil {
		return nil, 0, err
	}
	return bridge{stream: stream, id: id, startedAt: c.State.StartedAt}, version, nil
}

// CheckRunning is the session's check of its container.
func (b bridge) CheckRunning(ctx context.Context) error {
	c, err := b.r.lookupRunning(ctx, b.id)
	if c.ContainerJSONBase != nil && c.State.Paused {
		return nil // its processes exist and may continue
	}
	if err == nil && c.State.StartedAt != b.startedAt {
		return fmt.Errorf("%w: it was started again", runtime.ErrNotRunning)
	}
	return err
}

// lookupRunning finds a container in which commands can run.
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

// lookupCompatible is lookupRunning for a container whose protocol this server
// supports. It also returns the version in the container's record.
func (r *Runtime) lookupCompatible(ctx context.Context, id string) (container.InspectResponse, int, error) {
	c, err := r.lookupRunning(ctx, id)
	if err != nil {
		return c, 0, err
	}
	version, err := shim.Protocols().Parse(c.Config.Labels[labelProtocol])
	return c, version, err
}

// checkRunning returns nil if the engine reports the container as running.
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

// WaitResult is runtime.Execer.WaitResult.
func (r *Runtime) WaitResult(ctx context.Context, id string, cmd runtime.Command) (runtime.Result, error) {
	result, err := r.sessions.Get(id).WaitResult(ctx, cmd)
	if err != nil {
		return result, fmt.Errorf("request an outcome from the container %s: %w", id, err)
	}
	return result, nil
}

// RecordBaseline is runtime.Recycler.RecordBaseline.
func (r *Runtime) RecordBaseline(ctx context.Context, id string, fence int64) error {
	if err := r.sessions.Get(id).RecordBaseline(ctx, fence, nil); err != nil {
		return fmt.Errorf("record the baseline of the container %s: %w", id, err)
	}
	return nil
}

// Wipe is runtime.Recycler.Wipe. It does not use the engine's list of changes,
// which compares modification times: every owner of a file can set those.
func (r *Runtime) Wipe(ctx context.Context, id string, fence int64) error {
	tail := func(ctx context.Context, lines int64, to io.Writer) error { return r.copyTail(ctx, id, lines, to) }
	if err := r.sessions.Get(id).WipeWithLogMarks(ctx, fence, tail); err != nil {
		return fmt.Errorf("wipe the container %s: %w", id, err)
	}
	return nil
}
