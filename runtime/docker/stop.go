package docker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// stopMargin is how much longer than a grace period the server waits, because
// the clock is the shim's.
const stopMargin = 2 * time.Second

// stopTimeout returns how long a container may take to stop, in seconds, for its
// settings. With 0 it is killed at once.
func stopTimeout(grace time.Duration) *int {
	seconds := 0
	if grace > 0 {
		seconds = int(math.Ceil((grace + stopMargin).Seconds()))
	}
	return &seconds
}

// errGracePeriodEnded is the cause of a stop's context when the grace period of
// the main process has passed.
var errGracePeriodEnded = errors.New("the main process did not exit before the deadline")

// stop asks the main process to exit and waits until it has. The container
// itself stays, and remove ends it when it holds removeSem: an engine 20.10
// locks up when several containers that exit leave one network concurrently.
// The signal goes through the engine, so that it arrives where no session is
// available. Then the exit of the main process cannot be observed, and stop
// waits for the whole period. If the engine refuses to send the signal, the
// session sends it, and if the session fails too, the container is removed
// without a signal.
func (r *Runtime) stop(ctx context.Context, id string, c container.InspectResponse) error {
	if c.Config == nil || c.Config.StopTimeout == nil || *c.Config.StopTimeout <= 0 ||
		c.State == nil || !c.State.Running || c.State.Paused {
		return nil
	}
	limit := time.Duration(*c.Config.StopTimeout) * time.Second
	stopCtx, cancel := context.WithTimeoutCause(ctx, limit, errGracePeriodEnded)
	defer cancel()
	err := r.api.ContainerKill(stopCtx, c.ID, strconv.Itoa(shim.HaltSignal))
	switch {
	case cerrdefs.IsNotFound(err) || cerrdefs.IsConflict(err): // it has exited concurrently
		return nil
	case isUnreachable(err) && context.Cause(stopCtx) == nil:
		return fmt.Errorf("ask the main process to exit: %w", r.apiError(ctx, err))
	}
	signalFailed := err != nil && context.Cause(stopCtx) == nil
	err = r.sessions.Get(id).Halt(stopCtx)
	if err == nil || errors.Is(err, runtime.ErrNotRunning) || errors.Is(err, runtime.ErrNotFound) ||
		errors.Is(err, runtime.ErrContainerExited) {
		return nil
	}
	if signalFailed && ctx.Err() == nil {
		return nil
	}
	<-stopCtx.Done()
	if errors.Is(context.Cause(stopCtx), errGracePeriodEnded) {
		return nil
	}
	return context.Cause(stopCtx)
}
