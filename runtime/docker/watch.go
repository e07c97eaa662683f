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
func (r *Runtime) Watch(ctx context.Context, ready func(), died func(runtime.Death)) error {
	if err := r.watch(ctx, ready, died); ctx.Err() == nil {
		return fmt.Errorf("watch the containers: %w", err)
	}
	return nil // the caller has had enough
}

func (r *Runtime) watch(ctx context.Context, ready func(), died func(runtime.Death)) error {
	// The engine answers before it has subscribed us. Asking for everything
	// since a moment ago, by its own clock, closes that gap.
	info, err := r.api.Info(ctx)
	if err != nil {
		return r.fault(ctx, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the client's reading
	wanted := r.ours(labelContainer)
	wanted.Add("type", string(events.ContainerEventType))
	for _, action := range []events.Action{
		events.ActionStart, events.ActionOOM, events.ActionDie, events.ActionDestroy} {
		wanted.Add("event", string(action))
	}
	messages, failed := r.api.Events(ctx, events.ListOptions{Since: info.SystemTime, Filters: wanted})
	select {
	case err := <-failed:
		return r.lost(ctx, err)
	default:
		ready()
	}
	obituary := newObituary(died, func(id string) bool {
		c, err := r.api.ContainerInspect(ctx, id)
		return err == nil && c.State.OOMKilled
	})
	for {
		select {
		case m := <-messages:
			obituary.note(m)
		case err := <-failed:
			return r.lost(ctx, err)
		}
	}
}

// lost is the end of the engine's account, whatever the reason.
func (r *Runtime) lost(ctx context.Context, err error) error {
	if err == nil {
		err = errors.New("the engine ended its account")
	}
	turned := r.fault(ctx, err)
	if ctx.Err() != nil || errors.Is(turned, runtime.ErrUnavailable) {
		return turned
	}
	return fmt.Errorf("%w: %w", runtime.ErrUnavailable, turned)
}

// obituary makes one death of the several events that tell of it.
type obituary struct {
	died   func(runtime.Death)
	ask    func(id string) bool // whether the engine says that memory ended it
	oom    map[string]bool      // memory ran out in it since it started
	buried map[string]bool      // its death was told
}

func newObituary(died func(runtime.Death), ask func(string) bool) *obituary {
	return &obituary{died: died, ask: ask, oom: make(map[string]bool), buried: make(map[string]bool)}
}

// killedCode is the exit code of a process that SIGKILL ended. Running out of
// memory ends one that way; a container in which another process ran out of
// memory ends with a code of its own.
const killedCode = 137

func (o *obituary) note(m events.Message) {
	id := m.Actor.Attributes[labelContainer]
	switch m.Action {
	case events.ActionStart:
		delete(o.oom, id)
		delete(o.buried, id)
	case events.ActionOOM:
		o.oom[id] = true
	case events.ActionDie:
		o.tell(m, id)
		o.buried[id] = true
	case events.ActionDestroy:
		if !o.buried[id] {
			o.tell(m, id)
		}
		delete(o.oom, id)
		delete(o.buried, id)
	}
}

func (o *obituary) tell(m events.Message, id string) {
	code, err := strconv.Atoi(m.Actor.Attributes["exitCode"])
	if err != nil {
		code = -1 // it disappeared without having ended before our eyes
	}
	// The account of the memory may come after that of the death.
	o.died(runtime.Death{
		ID: id, ExitCode: code, OOMKilled: code == killedCode && (o.oom[id] || o.ask(m.Actor.ID)),
		Time: time.Unix(0, m.TimeNano),
	})
}
