package apitest

import (
	"context"
	"fmt"
	"slices"

	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/runtime"
)

type deliveries struct{ *Backend }

func (b deliveries) Deliveries(_ context.Context, f delivery.Filter) ([]delivery.Delivery, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return firstMatching(inOrder(b.Backend.Deliveries, f.Newest), f.Limit, func(d delivery.Delivery) bool {
		return isSelected(d.ID, f.IDPart, f.After, f.Newest) && matchesField(f.Workload, d.Workload) && matchesField(f.Hook, d.Hook) && matchesField(f.Tenant, d.Tenant) && f.Scope.Includes(d.Tenant, d.Workload, d.Claim) &&
			matchesField(f.Claim, d.Claim) && matchesField(f.Container, d.Container) &&
			(len(f.States) == 0 || slices.Contains(f.States, d.State))
	}), b.Errors["deliveries"]
}

func (b deliveries) Delivery(_ context.Context, id string) (delivery.Delivery, error) {
	return b.change(id, func(*delivery.Delivery) {})
}

func (b deliveries) Retry(_ context.Context, id string) (delivery.Delivery, error) {
	return b.change(id, func(d *delivery.Delivery) { d.State = delivery.Queued })
}

func (b deliveries) Discard(_ context.Context, id string) (delivery.Delivery, error) {
	return b.change(id, func(d *delivery.Delivery) { d.State = delivery.Discarded })
}

func (b deliveries) change(id string, set func(*delivery.Delivery)) (delivery.Delivery, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, d := range b.Backend.Deliveries {
		if d.ID == id {
			set(&b.Backend.Deliveries[i])
			return b.Backend.Deliveries[i], b.Errors["delivery"]
		}
	}
	return delivery.Delivery{}, delivery.ErrNotFound
}

// Test returns a run of one hook.
func (b deliveries) Test(_ context.Context, p hooks.Point, s runner.Subject) ([]hooks.Run, error) {
	code, now := 1, Time
	run := hooks.Run{
		ID: "run-test", Point: p, Hook: "init", Attempt: 1, Kind: hooks.KindCommand, Workload: s.Workload, Container: s.Container,
		Claim: s.Claim, Tenant: s.Tenant, State: hooks.Failed, StartedAt: Time, EndedAt: &now, Duration: 3.5,
		Detail: hooks.Detail{ExitCode: &code}, Stderr: runtime.Output{Head: "no such file\n", Total: 13},
	}
	return []hooks.Run{run.AsTest()}, b.injectedError("test")
}

// Replay counts the events of the log in the range.
func (b deliveries) Replay(_ context.Context, workload, hook string, from, to int64) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.Log {
		if e.Workload == workload && e.Seq >= from && e.Seq <= to {
			n++
		}
	}
	if !slices.ContainsFunc(b.Backend.Deliveries, func(d delivery.Delivery) bool { return d.Hook == hook }) {
		err = fmt.Errorf("hook %s of workload %s: %w", hook, workload, delivery.ErrHookNotFound)
	}
	return n, err
}
