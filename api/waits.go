package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/hostler/hostler/wait"
)

// Waits begins and ends the waits of tenants' programs.
type Waits interface {
	// Start begins a wait, or returns the one that the request has begun.
	Start(ctx context.Context, claimID string, r wait.Request) (w wait.Wait, created bool, err error)
	// Follow returns a wait when it has ended or ctx ends.
	Follow(ctx context.Context, id string) (wait.Wait, error)
	Get(ctx context.Context, id string) (wait.Wait, error)
	List(ctx context.Context, f wait.Filter) ([]wait.Wait, error)
	Signal(ctx context.Context, claimID, name string, data json.RawMessage) (wait.SignalResult, error)
}

// WaitRequest is the request to wait.
type WaitRequest struct {
	RequestID string          `json:"request_id,omitempty" maxLength:"128" doc:"An id of this request: repeated, it returns the same wait, also after its end."`
	Name      string          `json:"name,omitempty" maxLength:"128" doc:"That of the signals for it. While a wait of the name is open, a request for it returns that one."`
	Type      string          `json:"type" minLength:"1" maxLength:"63" doc:"What the program waits for: consensus, validation, dependency or another lower-case word." example:"consensus"`
	Timeout   Duration        `json:"timeout" doc:"How long it waits; at most 5m, unless the server permits more."`
	OnTimeout wait.Decision   `json:"on_timeout,omitempty" maxLength:"16" doc:"What becomes of it after its deadline unless a hook decides: abort, retry, extend or escalate (default)."`
	Context   json.RawMessage `json:"context,omitempty" doc:"JSON of at most 32 KiB for its hooks. The fields task, iteration and phase are variables."`
}

type waitIn struct {
	ID   string `path:"id" maxLength:"128" doc:"The claim's id."`
	Wait string `query:"wait" maxLength:"32" doc:"How long to wait for its end, such as 60s; at most 5m. Default: not at all." example:"60s"`
	Body WaitRequest
}

type waitOut struct {
	Status int
	Body   wait.Wait
}

func (a *API) wait(ctx context.Context, in *waitIn) (*waitOut, error) {
	d, err := followTime(in.Wait)
	if err != nil {
		return nil, err
	}
	b := in.Body
	w, created, err := a.o.Waits.Start(ctx, in.ID, wait.Request{
		ID: b.RequestID, Name: b.Name, Type: b.Type, Timeout: b.Timeout.Duration, OnTimeout: b.OnTimeout, Context: b.Context,
	})
	if err == nil {
		w, err = a.followWait(ctx, w, d)
	}
	if err != nil {
		return nil, err
	}
	out := &waitOut{Status: http.StatusOK, Body: w}
	if created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

type getWaitIn struct {
	ID   string `path:"id" maxLength:"128" doc:"The wait's id."`
	Wait string `query:"wait" maxLength:"32" doc:"How long to wait for its end, such as 60s; at most 5m. Default: not at all." example:"60s"`
}

func (a *API) getWait(ctx context.Context, in *getWaitIn) (*struct{ Body wait.Wait }, error) {
	d, err := followTime(in.Wait)
	if err != nil {
		return nil, err
	}
	w, err := a.o.Waits.Get(ctx, in.ID)
	if err == nil {
		w, err = a.followWait(ctx, w, d)
	}
	if err != nil {
		return nil, err
	}
	return &struct{ Body wait.Wait }{w}, nil
}

// followTime returns how long a request may wait for the end of a wait.
func followTime(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, invalidf("query.wait: %q is not a duration such as 60s", text)
	}
	if d < 0 || d > maxWait {
		return 0, invalidf("query.wait: %s is not between 0 and %s", d, maxWait)
	}
	return d, nil
}

// followWait waits until an open wait has ended, or d has passed.
func (a *API) followWait(ctx context.Context, w wait.Wait, d time.Duration) (wait.Wait, error) {
	if d == 0 || !w.State.IsOpen() {
		return w, nil
	}
	following, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	w, err := a.o.Waits.Follow(following, w.ID)
	if err == nil {
		err = credentialEnd(ctx) // it returns the wait as it is, then
	}
	return w, err
}

type listWaitsIn struct {
	Paging
	Selection
	Workload string   `query:"workload" maxLength:"128"`
	Claim    string   `query:"claim" maxLength:"128"`
	Tenant   string   `query:"tenant" maxLength:"200"`
	State    []string `query:"state,explode" doc:"starting, waiting, signalling, timing_out, signalled, timed_out, aborted or cancelled; several as a list with commas or repeated."`
}

func (a *API) listWaits(ctx context.Context, in *listWaitsIn) (*struct{ Body *Page[wait.Wait] }, error) {
	wanted, err := states(in.State, wait.States())
	if err != nil {
		return nil, err
	}
	items, err := a.o.Waits.List(ctx, wait.Filter{
		Workload: in.Workload, Claim: in.Claim, Tenant: in.Tenant, States: wanted, After: in.After, IDPart: in.IDPart, Newest: in.isNewest(), Limit: in.Limit + 1, NoContent: true,
		Scope: scopeOf(ctx),
	})
	if err != nil {
		return nil, err
	}
	page := pageOf(items, in.Limit, func(w wait.Wait) string { return w.ID })
	for i, w := range page.Items {
		page.Items[i] = viewOf(ctx).wait(w)
	}
	return &struct{ Body *Page[wait.Wait] }{page}, nil
}

// SignalRequest is a signal.
type SignalRequest struct {
	Name string          `json:"name,omitempty" maxLength:"128" doc:"That of the wait."`
	Data json.RawMessage `json:"data,omitempty" doc:"JSON of at most 32 KiB for the program that waits, and its hooks. Default: null."`
}

type signalIn struct {
	ID   string `path:"id" maxLength:"128" doc:"The claim's id."`
	Body SignalRequest
}

func (a *API) signal(ctx context.Context, in *signalIn) (*struct{ Body wait.SignalResult }, error) {
	d, err := a.o.Waits.Signal(ctx, in.ID, in.Body.Name, in.Body.Data)
	if err != nil {
		return nil, err
	}
	return &struct{ Body wait.SignalResult }{d}, nil
}
