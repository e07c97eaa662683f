package docker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/events"

	"github.com/hostler/hostler/runtime"
)

// Watch is runtime.Observer.Watch.
func (r *Runtime) Watch(ctx context.Context, ready func(), onExit func(runtime.Exit)) error {
	if err := r.watch(ctx, ready, onExit); ctx.Err() == nil {
		return fmt.Errorf("watch the containers: %w", err)
	}
	return nil // the caller ended the watch
}

func (r *Runtime) watch(ctx context.Context, ready func(), onExit func(runtime.Exit)) error {
	// The engine responds before it has subscribed us. Requesting everything
	// since the current time, by its own clock, closes that gap.
	info, err := r.api.Info(ctx)
	if err != nil {
		return r.apiError(ctx, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the client's reading
	wanted := r.instanceFilter(labelContainer)
	wanted.Add("type", string(events.ContainerEventType))
	for _, action := range []events.Action{
		events.ActionStart, events.ActionOOM, events.ActionDie, events.ActionDestroy} {
		wanted.Add("event", string(action))
	}
	messages, failed := r.api.Events(ctx, events.ListOptions{Since: info.SystemTime, Filters: wanted})
	select {
	case err := <-failed:
		return r.watchError(ctx, err)
	default:
		ready()
	}
	tracker := newExitTracker(onExit, func(id string) bool { return r.isOOMKilled(ctx, id) })
	for {
		select {
		case m := <-messages:
			tracker.handle(m)
		case err := <-failed:
			return r.watchError(ctx, err)
		}
	}
}

// isOOMKilled reports whether the engine has recorded that a container ran out of
// memory. One about which the engine does not answer must not hold up the events
// of the others.
func (r *Runtime) isOOMKilled(ctx context.Context, engineID string) bool {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)
	defer cancel()
	c, err := r.api.ContainerInspect(ctx, engineID)
	return err == nil && c.State.OOMKilled
}

// watchError converts the end of the engine's event stream, whatever its cause.
func (r *Runtime) watchError(ctx context.Context, err error) error {
	if err == nil {
		err = errors.New("the engine ended its event stream")
	}
	converted := r.apiError(ctx, err)
	if ctx.Err() != nil || errors.Is(converted, runtime.ErrUnavailable) {
		return converted
	}
	return fmt.Errorf("%w: %w", runtime.ErrUnavailable, converted)
}

// exitTracker reports one exit for the several events that describe it.
type exitTracker struct {
	onExit      func(runtime.Exit)
	isOOMKilled func(id string) bool // reports whether the engine has recorded it as OOM killed
	oom         map[string]bool      // memory ran out in it since it started
	reported    map[string]bool      // its exit was reported
}

func newExitTracker(onExit func(runtime.Exit), isOOMKilled func(string) bool) *exitTracker {
	return &exitTracker{onExit: onExit, isOOMKilled: isOOMKilled, oom: make(map[string]bool), reported: make(map[string]bool)}
}

// sigkillExitCode is the exit code of a process that SIGKILL ended. Running out of
// memory ends one that way; a container in which another process ran out of
// memory ends with a code of its own.
const sigkillExitCode = 137

func (o *exitTracker) handle(m events.Message) {
	id := m.Actor.Attributes[labelContainer]
	switch m.Action {
	case events.ActionStart:
		delete(o.oom, id)
		delete(o.reported, id)
	case events.ActionOOM:
		o.oom[id] = true
	case events.ActionDie:
		o.report(m, id)
		o.reported[id] = true
	case events.ActionDestroy:
		if !o.reported[id] {
			o.report(m, id)
		}
		delete(o.oom, id)
		delete(o.reported, id)
	}
}

func (o *exitTracker) report(m events.Message, id string) {
	code, err := strconv.Atoi(m.Actor.Attributes["exitCode"])
	if err != nil {
		code = -1 // it disappeared and no exit was observed
	}
	// The event of the memory may follow that of the exit.
	o.onExit(runtime.Exit{
		ID: id, ExitCode: code, OOMKilled: code == sigkillExitCode && (o.oom[id] || o.isOOMKilled(m.Actor.ID)),
		Time: time.Unix(0, m.TimeNano),
	})
}
