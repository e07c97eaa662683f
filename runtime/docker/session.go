package docker

import (
	"context"
	"fmt"
	"io"

	"github.com/docker/docker/api/types/container"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/backend"
)

var _ shim.LivenessChecker = bridge{}

// dial runs the shim's bridge in the container and connects to it.
func (r *Runtime) dial(ctx context.Context, id string) (io.ReadWriteCloser, int, error) {
	c, version, err := r.lookupCompatible(ctx, id)
	if err != nil {
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

// volumeMounts returns the mounts of a container in which files can be written.
func (r *Runtime) volumeMounts(ctx context.Context, id string) ([]backend.Mount, error) {
	c, _, err := r.lookupCompatible(ctx, id)
	if err != nil {
		return nil, err
	}
	mounts := make([]backend.Mount, len(c.Mounts))
	for i, m := range c.Mounts {
		mounts[i] = backend.Mount{Volume: m.Name, Target: m.Destination, ReadOnly: !m.RW}
	}
	return mounts, nil
}
