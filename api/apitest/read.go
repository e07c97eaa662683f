package apitest

import (
	"context"
	"slices"
	"strings"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
)

type records struct{ *Backend }

func (b records) Claim(_ context.Context, id string) (claim.Claim, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.Backend.Claims {
		if c.ID == id {
			return c, nil
		}
	}
	return claim.Claim{}, claim.ErrClaimNotFound
}

func (b records) Claims(_ context.Context, f claim.Filter) ([]claim.Claim, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return firstMatching(inOrder(b.Backend.Claims, f.Newest), f.Limit, func(c claim.Claim) bool {
		return isSelected(c.ID, f.IDPart, f.After, f.Newest) && matchesField(f.Workload, c.Workload) && matchesField(f.Tenant, c.Tenant) && matchesField(f.Container, c.Container) && f.Scope.Includes(c.Tenant, c.Workload, c.ID) &&
			(len(f.States) == 0 && c.State.IsLive() || slices.Contains(f.States, c.State))
	}), b.Errors["claims"]
}

type runs struct{ *Backend }

func (b runs) Runs(_ context.Context, f hooks.RunFilter) ([]hooks.Run, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return firstMatching(inOrder(b.Attempts, f.Newest), f.Limit, func(r hooks.Run) bool {
		return isSelected(r.ID, f.IDPart, f.After, f.Newest) && matchesField(f.Workload, r.Workload) && matchesField(f.Tenant, r.Tenant) && f.Scope.Includes(r.Tenant, r.Workload, r.Claim) &&
			matchesField(f.Claim, r.Claim) && matchesField(f.Container, r.Container) && matchesField(string(f.Point), string(r.Point)) &&
			(len(f.States) == 0 || slices.Contains(f.States, r.State)) && !r.StartedAt.Before(f.Since)
	}), b.Errors["runs"]
}

func (b runs) Run(_ context.Context, id string) ([]hooks.Run, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return firstMatching(b.Attempts, 0, func(r hooks.Run) bool { return r.ID == id }), b.Errors["run"]
}

type events struct{ *Backend }

func (b events) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

func (b events) LastSeq(context.Context) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int64(len(b.Log)), b.Errors["last"]
}

func (b events) Events(_ context.Context, f activity.Filter, after int64, limit int) (activity.Page, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.Errors["events"]; err != nil {
		return activity.Page{}, err
	}
	page := activity.Page{Next: after}
	if after+1 < b.OldestSeq {
		page.OldestSeq = b.OldestSeq
	}
	for _, e := range b.Log {
		if len(page.Items) == limit {
			break
		}
		if e.Seq <= after || e.Seq < b.OldestSeq {
			continue
		}
		page.Next = e.Seq
		if matchesFilter(f, e) {
			page.Items = append(page.Items, e)
		}
	}
	return page, nil
}

// NewestEvents returns the last events that match.
func (b events) NewestEvents(_ context.Context, f activity.Filter, limit int) (activity.Page, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	page := activity.Page{Next: int64(len(b.Log))}
	page.Items = firstMatching(inOrder(b.Log, true), limit, func(e activity.Event) bool { return matchesFilter(f, e) })
	slices.Reverse(page.Items)
	return page, b.Errors["events"]
}

// inOrder returns items, or with newest those in the reverse order.
func inOrder[T any](items []T, newest bool) []T {
	items = slices.Clone(items)
	if newest {
		slices.Reverse(items)
	}
	return items
}

// isSelected reports whether a list with these parameters has an id.
func isSelected(id, part, after string, newest bool) bool {
	if part != "" && !strings.HasPrefix(id, part) && !strings.HasSuffix(id, part) {
		return false
	}
	if newest {
		return after == "" || id < after
	}
	return id > after
}

func matchesFilter(f activity.Filter, e activity.Event) bool {
	ofType := len(f.Types) == 0 || slices.ContainsFunc(f.Types, func(t activity.Type) bool {
		return e.Type == t || strings.HasPrefix(string(e.Type), string(t)+".")
	})
	if f.Untrusted != nil && *f.Untrusted != e.Untrusted || e.Priority != nil && *e.Priority < f.MinPriority {
		return false
	}
	return ofType && matchesField(f.Workload, e.Workload) && matchesField(f.Container, e.Container) &&
		matchesField(f.Tenant, e.Tenant) && matchesField(f.Claim, e.Claim) && matchesField(f.Point, e.Point) && matchesField(f.Run, e.Run) && f.Scope.Includes(e.Tenant, e.Workload, e.Claim)
}
