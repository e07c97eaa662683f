package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// The engine's timeouts and poll intervals. An engine that has not removed a
// container in removeTimeout has locked up, or is about to.
const (
	maxWait            = 30 * time.Second
	removeTimeout      = 5 * time.Minute
	removePollInterval = 50 * time.Millisecond
	openPollInterval   = 5 * time.Millisecond
)

// Create is runtime.Lifecycle.Create.
func (r *Runtime) Create(ctx context.Context, spec runtime.Spec) error {
	if err := r.create(ctx, spec); err != nil {
		return fmt.Errorf("create the container %s: %w", spec.ID, err)
	}
	return nil
}

func (r *Runtime) create(ctx context.Context, spec runtime.Spec) error {
	// The engine would reject the name eventually, but only after a pull.
	if err := r.checkNameFree(ctx, spec.ID); err != nil {
		return err
	}
	img, err := r.resolve(ctx, spec.Image)
	if err != nil {
		return err
	}
	config, err := r.containerConfig(spec, img)
	if err != nil {
		return err
	}
	networks := []string{runtime.NetworkNone}
	if spec.Isolation.NetworkMode != runtime.NetworkNone {
		if networks, err = r.networks(ctx, spec.Networks); err != nil {
			return err
		}
	}
	host := r.hostConfig(spec, networks[0])
	if err := r.applyIsolation(host, spec.Isolation); err != nil {
		return err
	}
	if err := r.ensureShimVolume(ctx, spec.Image); err != nil {
		return err
	}
	created, err := r.api.ContainerCreate(ctx, config, host, nil, nil,
		containerName(spec.ID))
	if cerrdefs.IsConflict(err) {
		return errors.Join(err, r.checkNameFree(ctx, spec.ID))
	}
	if err != nil {
		return r.createError(ctx, err)
	}
	for _, name := range networks[1:] {
		err := r.api.NetworkConnect(ctx, name, created.ID, &network.EndpointSettings{})
		if err != nil {
			return fmt.Errorf("connect to the network %s: %w", name, r.createError(ctx, err))
		}
	}
	return nil
}

// checkNameFree returns nil if no container has the name that one of this id
// would have.
func (r *Runtime) checkNameFree(ctx context.Context, id string) error {
	_, err := r.lookup(ctx, id)
	switch {
	case err == nil:
		return runtime.ErrExists
	case id == "" || errors.Is(err, errForeign):
		return fmt.Errorf("%w: the name %s is in use", runtime.ErrInvalid, containerName(id))
	case errors.Is(err, runtime.ErrNotFound):
		return nil
	}
	return err
}

// resume starts process 1 of a container, unless it runs, and calls change.
func (r *Runtime) resume(ctx context.Context, id string, change func(context.Context) error) error {
	c, err := r.lookup(ctx, id)
	if err == nil {
		_, err = shim.Protocols().Parse(c.Config.Labels[labelProtocol])
	}
	if err != nil {
		return err
	}
	// A running one is not started: if it exits now, its files are not checked.
	if !c.State.Running || c.State.Paused {
		if err := r.startProcess(ctx, c); err != nil {
			if _, lookupErr := r.lookup(ctx, id); errors.Is(lookupErr, runtime.ErrNotFound) {
				return lookupErr // removed concurrently, not rejected
			}
			return err
		}
		r.sessions.Get(id).Disconnect()
	}
	// The engine returns once process 1 exists, which is before it listens.
	return r.withRetry(ctx, openPollInterval, func() (bool, error) {
		err := change(ctx)
		return err == nil, err
	})
}

// startTimeout bounds the engine's start of process 1.
const startTimeout = 2 * time.Minute

// errStartTimeout is the cause when startTimeout has passed.
var errStartTimeout = fmt.Errorf("%w: it was not started within %s", runtime.ErrUnavailable, startTimeout)

// startProcess has the engine start process 1 of a container. If the engine
// responds to other calls and not to this one, the container is the cause.
func (r *Runtime) startProcess(ctx context.Context, c container.InspectResponse) error {
	startCtx, cancel := context.WithTimeoutCause(ctx, startTimeout, errStartTimeout)
	defer cancel()
	if err := r.checkAccountFiles(startCtx, c); err != nil {
		if errors.Is(err, runtime.ErrTainted) {
			return err
		}
		return r.apiError(startCtx, err)
	}
	err := r.api.ContainerStart(startCtx, c.ID, container.StartOptions{})
	if isAmbiguousNetwork(err) && r.ensureNetwork(startCtx) == nil {
		err = r.api.ContainerStart(startCtx, c.ID, container.StartOptions{})
	}
	if err = r.createError(startCtx, err); !errors.Is(err, errStartTimeout) {
		return err
	}
	pingCtx, cancelPing := context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)
	defer cancelPing()
	if r.Ping(pingCtx) != nil {
		return err
	}
	return fmt.Errorf("%w: the engine responds and has not started it within %s", runtime.ErrNotRunning, startTimeout)
}

// Destroy is runtime.Lifecycle.Destroy. Grace periods of several containers run
// concurrently; the containers are removed one by one.
func (r *Runtime) Destroy(ctx context.Context, id string) error {
	c, err := r.lookupRemovable(ctx, id)
	if err == nil {
		err = r.stop(ctx, id, c)
	}
	if err == nil {
		err = r.remove(ctx, c.ID)
	}
	if err != nil && !errors.Is(err, runtime.ErrNotFound) {
		return fmt.Errorf("destroy the container %s: %w", id, err)
	}
	r.sessions.Remove(id)
	if err := r.removeVolumes(ctx, id); err != nil {
		return fmt.Errorf("destroy the volumes of the container %s: %w", id, err)
	}
	return nil
}

// remove kills and removes one container, or waits for another process that
// removes it already.
func (r *Runtime) remove(ctx context.Context, engineID string) error {
	return r.withRetry(ctx, removePollInterval, func() (bool, error) {
		answer, err := r.startRemove(ctx, engineID)
		if err != nil {
			return false, err
		}
		select {
		case err = <-answer:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
		if err == nil || cerrdefs.IsNotFound(err) {
			return true, nil
		}
		if cerrdefs.IsConflict(err) { // "removal is already in progress"
			return false, fmt.Errorf("%w: %w", runtime.ErrUnavailable, err)
		}
		return false, r.apiError(ctx, err)
	})
}

// startRemove has the engine remove one container when it holds removeSem, and
// returns the channel on which the response arrives. An engine continues a
// removal when no caller waits for it any more, so the semaphore is held until
// the engine has responded.
func (r *Runtime) startRemove(ctx context.Context, engineID string) (<-chan error, error) {
	select {
	case r.removeSem <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	answer := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	go func() { // ends with the engine's response, or with its timeout
		defer func() { <-r.removeSem }()
		defer cancel()
		answer <- r.api.ContainerRemove(ctx, engineID, container.RemoveOptions{Force: true, RemoveVolumes: true})
	}()
	return answer, nil
}

// removeVolumes removes the container's own volumes. Right after a removal the
// engine may still count them as in use.
func (r *Runtime) removeVolumes(ctx context.Context, id string) error {
	return r.withRetry(ctx, removePollInterval, func() (bool, error) {
		found, err := r.api.VolumeList(ctx, volume.ListOptions{Filters: r.instanceFilter(labelContainer + "=" + id)})
		if err != nil {
			return false, r.apiError(ctx, err)
		}
		for _, v := range found.Volumes {
			err := r.api.VolumeRemove(ctx, v.Name, true)
			if err != nil && !cerrdefs.IsNotFound(err) {
				return false, fmt.Errorf("%w: %w", runtime.ErrUnavailable, err)
			}
		}
		return true, nil
	})
}

// withRetry retries while the engine responds that it is busy, and returns the
// last error when its timeout passes or the context ends.
func (r *Runtime) withRetry(ctx context.Context, interval time.Duration, attempt func() (done bool, err error)) error {
	limit := time.NewTimer(maxWait)
	defer limit.Stop()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		done, err := attempt()
		if done || err != nil && !isRetryable(err) {
			return err
		}
		select {
		case <-ticker.C:
		case <-limit.C:
			return err
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// isRetryable reports whether the engine responded that it cannot do it now.
func isRetryable(err error) bool {
	return errors.Is(err, runtime.ErrUnavailable) && !isUnreachable(err)
}
