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

// callTimeout is how long the engine may take to describe containers. It answers
// for each container only when nothing else holds that one's lock.
const callTimeout = 30 * time.Second

// errCallTimeout is the cause when callTimeout has passed.
var errCallTimeout = fmt.Errorf("%w within %s", runtime.ErrUnavailable, callTimeout)

// apiError turns an engine's error into one of package runtime, for the calls
// where a refusal has no meaning of its own: see refusal for those that make
// something.
func (r *Runtime) apiError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if isUnreachable(err) {
		return fmt.Errorf("%w: nothing answers at %s (%w): start the engine, check that this user may "+
			"use it, or set DOCKER_HOST to where it listens", runtime.ErrUnavailable, r.api.DaemonHost(), err)
	}
	for _, row := range errorKinds {
		if row.is(err) {
			return fmt.Errorf("%w: %w", row.err, err)
		}
	}
	return err
}

// errorKinds is what the engine's kinds of error mean. A failure inside the engine
// tells nothing about the container, so it counts as no answer. A conflict is
// about the container's state: ended, paused or on its way out.
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

// createError is fault for creating and starting: there, what the engine answers
// is its judgement of the spec. What it does not find is then a part of the
// container, such as a network or the image, and not the container.
func (r *Runtime) createError(ctx context.Context, err error) error {
	converted := r.apiError(ctx, err)
	if err == nil || ctx.Err() != nil || isUnreachable(err) || errors.Is(converted, runtime.ErrInvalid) {
		return converted
	}
	return fmt.Errorf("%w: %w", runtime.ErrInvalid, err)
}

// isUnreachable says that the engine could not be talked to, or broke off.
func isUnreachable(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || client.IsErrConnectionFailed(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
