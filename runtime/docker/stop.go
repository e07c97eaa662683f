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

// stopMargin is how much longer than a grace period its end is waited for: the
// clock is the shim's.
const stopMargin = 2 * time.Second

// stopTimeout is how long a container may take to stop, in seconds, as its
// settings record it. With 0 it is killed at once.
func stopTimeout(grace time.Duration) *int {
	seconds := 0
	if grace > 0 {
		seconds = int(math.Ceil((grace + stopMargin).Seconds()))
	}
	return &seconds
}

// errGracePeriodEnded is the cause of a stop's context when the main process has had
// its time.
var errGracePeriodEnded = errors.New("the main process did not end in time")

// stop asks the main process to end and waits for that. The container itself
// stays, for remove to end when it is its turn: an engine 20.10 locks up when
// several containers that end leave one network at once. The signal goes
// through the engine, so that it arrives where no session can be had; then
// nobody can say when the main process has ended, and the whole time is waited.
// An engine that refuses to send it does not keep the container: the session
// asks, and if that cannot either, the container is removed unasked.
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
	case cerrdefs.IsNotFound(err) || cerrdefs.IsConflict(err): // it has ended meanwhile
		return nil
	case isUnreachable(err) && context.Cause(stopCtx) == nil:
		return fmt.Errorf("ask the main process to end: %w", r.apiError(ctx, err))
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
