package apitest

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/hostler/hostler/wait"
)

type waits struct{ *Backend }

// Start adds a wait that has its signal, unless there is one of the name.
func (b waits) Start(_ context.Context, claimID string, r wait.Request) (wait.Wait, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Requests = append(b.Requests, r)
	for _, w := range b.Waits {
		if w.Claim == claimID && w.Name == r.Name {
			return w, false, b.Errors["wait"]
		}
	}
	w := wait.Wait{
		ID: "wait-new", Claim: claimID, Workload: "greeter", Container: "k", Tenant: "alice", Request: r.ID, Name: r.Name, Type: r.Type,
		State: wait.Waiting, Round: 1, TimeoutMS: r.Timeout.Milliseconds(), OnTimeout: r.OnTimeout, Context: r.Context, CreatedAt: Time,
	}
	b.Waits = append(b.Waits, w)
	return w, true, b.Errors["wait"]
}

// Follow returns a wait that has ended.
func (b waits) Follow(ctx context.Context, id string) (wait.Wait, error) {
	w, err := b.Get(ctx, id)
	if err == nil && w.State.IsOpen() {
		w.State, w.EndedAt, w.Data = wait.Signalled, new(Time), json.RawMessage(`{"action":"approved"}`)
	}
	return w, err
}

func (b waits) Get(_ context.Context, id string) (wait.Wait, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.Waits {
		if w.ID == id {
			return w, b.Errors["wait"]
		}
	}
	return wait.Wait{}, wait.ErrNotFound
}

func (b waits) List(_ context.Context, f wait.Filter) ([]wait.Wait, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := slices.Clone(b.Waits)
	for i := range items {
		if f.NoContent {
			items[i].Context, items[i].Data = nil, nil
		}
	}
	return firstMatching(inOrder(items, f.Newest), f.Limit, func(w wait.Wait) bool {
		return isSelected(w.ID, f.IDPart, f.After, f.Newest) && matchesField(f.Workload, w.Workload) && matchesField(f.Claim, w.Claim) && matchesField(f.Tenant, w.Tenant) && f.Scope.Includes(w.Tenant, w.Workload, w.Claim) &&
			(len(f.States) == 0 || slices.Contains(f.States, w.State))
	}), b.Errors["waits"]
}

// Signal keeps every signal without a name.
func (b waits) Signal(_ context.Context, _, name string, data json.RawMessage) (wait.SignalResult, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Requests = append(b.Requests, string(data))
	if name == "" {
		return wait.SignalResult{Kept: 1}, b.Errors["signal"]
	}
	return wait.SignalResult{Wait: "wait-" + name}, b.Errors["signal"]
}
