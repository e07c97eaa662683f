package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"github.com/hostler/hostler/runtime"
)

// callTimeout bounds the engine's description of containers. The engine describes
// a container only when no other call holds that container's lock.
const callTimeout = 30 * time.Second

// errCallTimeout is the cause when callTimeout has passed.
var errCallTimeout = fmt.Errorf("%w: no response within %s", runtime.ErrUnavailable, callTimeout)

// apiError converts an engine's error into one of package runtime, for the calls
// where a rejection has no meaning of its own. createError is for those that
// create something.
func (r *Runtime) apiError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if isUnreachable(err) {
		return fmt.Errorf("%w: no response at %s (%w): start the engine, check that this user may "+
			"use it, or set DOCKER_HOST to its address", runtime.ErrUnavailable, r.api.DaemonHost(), err)
	}
	for _, row := range errorKinds {
		if row.is(err) {
			return fmt.Errorf("%w: %w", row.err, err)
		}
	}
	return err
}

// errorKinds maps the engine's kinds of error. A failure inside the engine
// reveals nothing about the container, so it counts as no response. A conflict
// is about the container's state: exited, paused or being removed.
var errorKinds = []struct {
	is  func(error) bool
	err error
}{
	{cerrdefs.IsNotFound, runtime.ErrNotFound},
	{cerrdefs.IsConflict, runtime.ErrNotRunning},
	{cerrdefs.IsInvalidArgument, runtime.ErrInvalid},
	{cerrdefs.IsUnavailable, runtime.ErrUnavailable},
	{cerrdefs.IsInternal, runtime.ErrUnavailable},
}

// createError is apiError for creating and starting: there, the engine's response
// is its judgment of the spec. What it does not find is then a part of the
// container, such as a network or the image, and not the container.
func (r *Runtime) createError(ctx context.Context, err error) error {
	converted := r.apiError(ctx, err)
	if err == nil || ctx.Err() != nil || isUnreachable(err) || errors.Is(converted, runtime.ErrInvalid) {
		return converted
	}
	return fmt.Errorf("%w: %w", runtime.ErrInvalid, err)
}

// isUnreachable reports whether the engine was unreachable, or disconnected.
func isUnreachable(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || client.IsErrConnectionFailed(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
