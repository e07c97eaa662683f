package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/inside"
	"github.com/hostler/hostler/memory"
	"github.com/hostler/hostler/publish"
	"github.com/hostler/hostler/wait"
)

// insideRequests returns the service of what programs in containers ask.
func (s *server) insideRequests(handler *api.API) *inside.Service {
	return inside.NewService(s.db, []inside.Request{
		inside.ReleaseRequest(countedReleases{s.releases, s.metrics}),
		{Name: "memory.put", Handle: inside.Of(s.putInside), HooksMay: true, Once: true},
		{Name: "memory.get", Handle: inside.ForClaim(s.memory.Get), HooksMay: true},
		{Name: "memory.delete", Handle: inside.Of(s.deleteInside), HooksMay: true, Once: true},
		{Name: "memory.list", Handle: inside.ForClaim(s.memory.List), HooksMay: true},
		{Name: "event.publish", Handle: inside.Of(s.publishInside), HooksMay: true, Once: true},
		{Name: "activity", Handle: inside.Of(s.setActivityInside), HooksMay: true, Once: true},
		{Name: "wait", Handle: inside.Of(s.waitInside)},
	}, handler.Describe, s.log)
}

// askedWait is the body of a request to wait, and waited its response.
type (
	askedWait struct {
		Name      string          `json:"name,omitempty"`
		Type      string          `json:"type"`
		Timeout   string          `json:"timeout"` // such as 60s
		OnTimeout wait.Decision   `json:"on_timeout,omitempty"`
		Context   json.RawMessage `json:"context,omitempty"`
	}
	waited struct {
		ID     string          `json:"id"`
		Name   string          `json:"name,omitempty"`
		State  wait.State      `json:"state"`
		Data   json.RawMessage `json:"data,omitempty"`
		Reason string          `json:"reason,omitempty"`
	}
)

// insideWaitTimeout is how long one request waits. The program then asks again: its
// request has the same ID, so that it is the same wait, on any server.
const insideWaitTimeout = 20 * time.Second

// waitInside waits for a signal. A hook may not: the wait's own hooks could have to
// wait for it.
func (s *server) waitInside(ctx context.Context, c inside.Caller, r askedWait) (waited, error) {
	timeout, err := time.ParseDuration(r.Timeout)
	if err != nil {
		return waited{}, fmt.Errorf("%w: the timeout is not a duration such as 60s", inside.ErrInvalid)
	}
	ctx, cancel := context.WithTimeout(ctx, insideWaitTimeout)
	defer cancel()
	w, err := s.waits.Wait(ctx, c.Claim, wait.Request{
		ID: c.Request, Name: r.Name, Type: r.Type, Timeout: timeout, OnTimeout: r.OnTimeout, Context: r.Context,
	})
	if err != nil {
		return waited{}, err
	}
	if w.State.IsOpen() {
		return waited{}, inside.ErrPending
	}
	return waited{ID: w.ID, Name: w.Name, State: w.State, Data: w.Data, Reason: w.Reason}, nil
}

// putInside and deleteInside change the memory of a claim, once for each request.
func (s *server) putInside(ctx context.Context, c inside.Caller, r memory.PutRequest) (memory.Written, error) {
	r.Request = c.Request
	return s.memory.Put(ctx, c.Claim, r)
}

func (s *server) deleteInside(ctx context.Context, c inside.Caller, r memory.DeleteRequest) (memory.Deleted, error) {
	r.Request = c.Request
	return s.memory.Delete(ctx, c.Claim, r)
}

// publishInside publishes an event. What a command of an event hook publishes is
// not delivered to event hooks.
func (s *server) publishInside(ctx context.Context, c inside.Caller, r publish.Request) (publish.Response, error) {
	r.Origin = originOf(c)
	return s.publish.Publish(ctx, c.Claim, r)
}

// setActivityInside records an activity, in the same way.
func (s *server) setActivityInside(ctx context.Context, c inside.Caller, r publish.ActivityRequest) (publish.ActivityResponse, error) {
	r.Origin = originOf(c)
	return s.publish.SetActivity(ctx, c.Claim, r)
}

// originOf returns where a request comes from.
func originOf(c inside.Caller) publish.Origin {
	return publish.Origin{ID: c.Request, FromHook: c.FromHook, Run: c.Run}
}
