package quota

import (
	"context"
	"errors"
)

// MaxOverrides bounds how many scopes have limits of their own.
const MaxOverrides = 10_000

// Errors of a Service.
var (
	// ErrNotFound is returned when a scope has no limits of its own.
	ErrNotFound = errors.New("it has no quota of its own")
	// ErrTooMany is returned when MaxOverrides scopes have limits of their own.
	ErrTooMany = errors.New("too many tenants, keys and workloads have quotas of their own")
)

// Store keeps the limits that win over the defaults. Each call is one transaction,
// and a change has its event in it.
type Store interface {
	QuotaOverrides(ctx context.Context) ([]Override, error)
	// QuotaOverride returns the limits of a scope, and whether it has any.
	QuotaOverride(ctx context.Context, s Scope) (l Limits, ok bool, err error)
	// PutQuota returns ErrTooMany, and DeleteQuota ErrNotFound.
	PutQuota(ctx context.Context, s Scope, l Limits) error
	DeleteQuota(ctx context.Context, s Scope) error
	// QuotaUsage returns what a scope uses.
	QuotaUsage(ctx context.Context, s Scope) (Usage, error)
	Versions
}

// Versions have a number that grows with each change of an override.
type Versions interface {
	QuotaVersion(ctx context.Context) (int64, error)
}

// Service reads and changes quotas, and limits requests.
type Service struct {
	store     Store
	defaults  Defaults
	onRefusal func(*ExceededError)
	requests  requests
}

// New returns a service. onRefusal is called for each request that is refused.
func New(store Store, defaults Defaults, onRefusal func(*ExceededError)) *Service {
	s := &Service{store: store, defaults: defaults, onRefusal: onRefusal}
	s.requests.buckets = map[Scope]*bucket{}
	return s
}

// Quota is the quota of a scope.
type Quota struct {
	Scope
	Limits   Limits  `json:"limits" doc:"The limits that apply. One that is omitted, or -1, does not."`
	Override *Limits `json:"override,omitempty" doc:"The limits of its own, which win over the server's defaults."`
	Usage    Usage   `json:"usage" doc:"What it uses."`
}

// List returns the limits of all scopes that have some of their own, in order.
func (s *Service) List(ctx context.Context) ([]Override, error) { return s.store.QuotaOverrides(ctx) }

// Get returns the quota of a scope, whether or not it has one of its own.
func (s *Service) Get(ctx context.Context, of Scope) (Quota, error) {
	l, ok, err := s.store.QuotaOverride(ctx, of)
	if err != nil {
		return Quota{}, err
	}
	q := Quota{Scope: of, Limits: l.Over(s.defaults[of.Level])}
	if ok {
		q.Override = &l
	}
	q.Usage, err = s.store.QuotaUsage(ctx, of)
	return q, err
}

// Set replaces the limits of a scope.
func (s *Service) Set(ctx context.Context, of Scope, l Limits) (Quota, error) {
	if err := of.Check(l); err != nil {
		return Quota{}, err
	}
	if err := s.store.PutQuota(ctx, of, l); err != nil {
		return Quota{}, err
	}
	return s.Get(ctx, of)
}

// Delete removes the limits of a scope: the defaults apply to it.
func (s *Service) Delete(ctx context.Context, of Scope) error { return s.store.DeleteQuota(ctx, of) }
