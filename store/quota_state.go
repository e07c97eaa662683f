package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/hostler/hostler/quota"
)

const selectStateSize = `SELECT bytes FROM state_sizes WHERE workload = $1 AND tenant = $2`

const selectStateKey = `SELECT quota_key FROM state_sizes WHERE workload = $1 AND tenant = $2`

// AdmitState returns *quota.ExceededError if a tenant's state of that size would exceed
// a quota, unless it is no larger than the one on record. It holds nothing: of two at
// once both may be admitted, and the next claim is refused then.
func (db *DB) AdmitState(ctx context.Context, workload, tenant string, bytes int64) error {
	err := db.update(ctx, func(t *tx) error {
		own, err := scanNumber(t.query(selectStateSize, workload, tenant))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return translateError(err)
		}
		key, err := scanText(t.query(selectStateKey, workload, tenant))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return translateError(err)
		}
		scopes := []quota.Scope{{Level: quota.Tenant, Name: tenant}, {Level: quota.Key, Name: key}, {Level: quota.Workload, Name: workload}}
		limits, err := limitsOf(t, scopes)
		if err != nil || bytes <= own {
			return err
		}
		for i, s := range scopes {
			if _, ok := limits[i].Of(quota.State); !ok || s.Name == "" {
				continue
			}
			u, err := scanUsage(t.query(usageQuery(s.Level, func(k quota.Kind) bool { return k == quota.State }), s.Name, toNanos(t.now)))
			if err != nil {
				return err
			}
			if err := s.AdmitState(limits[i], u.State-own+bytes); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("a state of tenant %s of %d bytes: %w", tenant, bytes, err)
	}
	return nil
}
