package apitest

import (
	"context"
	"sync"

	"github.com/hostler/hostler/quota"
)

// Quotas keeps quotas in memory. What scopes use is what the test sets.
type Quotas struct {
	mu      sync.Mutex // guards the fields below
	version int64
	limits  map[quota.Scope]quota.Limits
	Used    quota.Usage
}

// NewQuotas returns quotas with defaults.
func NewQuotas(defaults quota.Defaults) *quota.Service {
	return quota.New(&Quotas{limits: map[quota.Scope]quota.Limits{}}, defaults, func(*quota.ExceededError) {})
}

// QuotaVersion implements quota.Store.
func (q *Quotas) QuotaVersion(context.Context) (int64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.version, nil
}

// QuotaOverrides implements quota.Store.
func (q *Quotas) QuotaOverrides(context.Context) ([]quota.Override, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []quota.Override
	for s, l := range q.limits {
		all = append(all, quota.Override{Scope: s, Limits: l, UpdatedAt: Time})
	}
	return all, nil
}

// QuotaOverride implements quota.Store.
func (q *Quotas) QuotaOverride(_ context.Context, s quota.Scope) (quota.Limits, bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l, ok := q.limits[s]
	return l, ok, nil
}

// PutQuota implements quota.Store.
func (q *Quotas) PutQuota(_ context.Context, s quota.Scope, l quota.Limits) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limits[s] = l
	q.version++
	return nil
}

// DeleteQuota implements quota.Store.
func (q *Quotas) DeleteQuota(_ context.Context, s quota.Scope) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.limits[s]; !ok {
		return quota.ErrNotFound
	}
	delete(q.limits, s)
	q.version++
	return nil
}

// QuotaUsage implements quota.Store.
func (q *Quotas) QuotaUsage(context.Context, quota.Scope) (quota.Usage, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.Used, nil
}
