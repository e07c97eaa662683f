package publish

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
)

// memory is a Store in memory, which several services share as servers do. Its
// clock may be ahead of theirs.
type memory struct {
	mu           sync.Mutex
	ahead        time.Duration
	claims       map[string]claim.Claim
	allowances   map[string]Allowance
	events       []activity.Event
	requested    map[string]activity.Event // by claim and ID
	transactions int
	err          error
	hold         chan struct{} // nil, or Publish waits until it is closed
}

func newMemory(claims ...string) *memory {
	m := &memory{claims: map[string]claim.Claim{}, allowances: map[string]Allowance{}, requested: map[string]activity.Event{}}
	for _, id := range claims {
		tenant, _, _ := strings.Cut(id, "-")
		now := time.Now()
		m.claims[id] = claim.Claim{ID: id, Tenant: tenant, Container: "k", State: claim.Active, ActiveAt: &now}
	}
	return m
}

func (m *memory) Claim(_ context.Context, id string) (claim.Claim, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.claims[id]
	if !ok {
		return c, claim.ErrClaimNotFound
	}
	return c, nil
}

func (m *memory) Publish(_ context.Context, p Publication) (Result, error) {
	if m.hold != nil {
		<-m.hold
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.transactions++
	if m.err != nil {
		return Result{}, m.err
	}
	c, ok := m.claims[p.Claim]
	if !ok {
		return Result{}, claim.ErrClaimNotFound
	}
	now := time.Now().Add(m.ahead)
	e, isChanged := p.Change(&c, time.Now())
	earlier, err := m.earlier(p.Claim, p.ID, e)
	if earlier == nil && err == nil && !slices.Contains(p.States, c.State) {
		err = claim.ErrNotActive
	}
	if err != nil || earlier != nil || !isChanged {
		return Result{Claim: m.claims[p.Claim], Event: earlier, Now: now}, err
	}
	r := Result{Claim: c, Now: now, ByClaim: m.allowances[c.ID], ByTenant: m.allowances["tenant "+c.Tenant]}
	if wait := r.ByClaim.Take(now, Size(e)); wait > 0 {
		return r, &LimitError{Of: "claim", RetryAfter: wait}
	}
	if wait := r.ByTenant.Take(now, Size(e)); wait > 0 {
		return r, &LimitError{Of: "tenant", RetryAfter: wait}
	}
	r.ByClaim.Dropped += p.Dropped
	m.allowances[c.ID], m.allowances["tenant "+c.Tenant], m.claims[c.ID] = r.ByClaim, r.ByTenant, c
	e.Time = now
	if p.ID != "" {
		m.requested[p.Claim+" "+p.ID] = e
	}
	m.events = append(m.events, e)
	r.Event = &e
	return r, nil
}

func (m *memory) PublishedEarlier(_ context.Context, claimID, requestID string, e activity.Event) (*activity.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.earlier(claimID, requestID, e)
}

// earlier is PublishedEarlier for a caller that holds mu.
func (m *memory) earlier(claimID, requestID string, e activity.Event) (*activity.Event, error) {
	earlier, ok := m.requested[claimID+" "+requestID]
	switch {
	case !ok:
		return nil, nil
	case !IsRepeated(earlier, e):
		return nil, ErrOtherRequest
	}
	return &earlier, nil
}

func (m *memory) touch(_ context.Context, id string) (claim.Claim, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.claims[id]
	c.TouchedAt = new(time.Now())
	m.claims[id] = c
	return c, m.err
}

func (m *memory) service(log *strings.Builder) *Service {
	o := Options{Touch: m.touch, Log: slog.New(slog.DiscardHandler)}
	if log != nil {
		o.Log = slog.New(slog.NewTextHandler(log, nil))
	}
	return New(m, o)
}
