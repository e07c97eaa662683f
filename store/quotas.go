package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/quota"
)

var _ quota.Store = (*DB)(nil)

const (
	selectQuotas = `SELECT level, name, limits, updated_at FROM quotas ORDER BY level, name`
	selectQuota  = `SELECT limits FROM quotas WHERE level = $1 AND name = $2`
	// selectLimits selects the limits of a tenant, a key and a workload.
	selectLimits = `SELECT
		coalesce((SELECT limits FROM quotas WHERE level = 'tenant' AND name = $1), ''),
		coalesce((SELECT limits FROM quotas WHERE level = 'key' AND name = $2), ''),
		coalesce((SELECT limits FROM quotas WHERE level = 'workload' AND name = $3), '')`
	putQuota = `INSERT INTO quotas (level, name, limits, updated_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (level, name) DO UPDATE SET limits = excluded.limits, updated_at = excluded.updated_at`
	deleteQuota   = `DELETE FROM quotas WHERE level = $1 AND name = $2`
	countQuotas   = `SELECT count(*) FROM quotas`
	raiseQuotas   = `UPDATE quota_version SET version = version + 1 WHERE id = 1`
	quotaVersion  = `SELECT version FROM quota_version WHERE id = 1`
	putStateBytes = `INSERT INTO state_sizes (workload, tenant, quota_key, bytes, updated_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (workload, tenant) DO UPDATE SET quota_key = excluded.quota_key, bytes = excluded.bytes, updated_at = excluded.updated_at`
	setStateBytes = `INSERT INTO state_sizes (workload, tenant, quota_key, bytes, updated_at) VALUES ($1, $2, '', $3, $4)
		ON CONFLICT (workload, tenant) DO UPDATE SET bytes = excluded.bytes, updated_at = excluded.updated_at`
	dropStateBytes = `DELETE FROM state_sizes WHERE workload = $1`
)

// quotaColumns are the columns that the levels count by.
var quotaColumns = map[quota.Level]string{quota.Tenant: "tenant", quota.Key: "quota_key", quota.Workload: "workload"}

// usageCounts count what a scope uses of each kind. COLUMN is that of the level. The
// conditions are those of the indexes, word for word.
var usageCounts = []struct {
	kind  quota.Kind
	query string
}{
	{quota.Claims, `SELECT count(*) FROM claims WHERE COLUMN = $1 AND COLUMN <> '' AND ` + liveCondition},
	{quota.Rate, `SELECT count(*) FROM claims WHERE COLUMN || '' = $1 AND created_at > $2`},
	{quota.State, `SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM state_sizes WHERE COLUMN = $1 AND COLUMN <> ''`},
}

// recentClaim selects when the claim was added that $3 others of the last minute
// follow.
const recentClaim = `SELECT created_at FROM claims WHERE COLUMN || '' = $1 AND created_at > $2 ORDER BY created_at DESC LIMIT 1 OFFSET $3`

// usageQuery returns the query of what a scope of a level uses, of the kinds that
// want accepts; the others are 0. Its arguments are the name and the begin of the
// last minute.
func usageQuery(level quota.Level, want func(quota.Kind) bool) string {
	counts := make([]string, len(usageCounts))
	for i, c := range usageCounts {
		counts[i] = "0"
		if want(c.kind) {
			counts[i] = "(" + c.query + ")"
		}
	}
	// The arguments are used in any case: a database must know their types.
	query := `SELECT ` + strings.Join(counts, ", ") + ` WHERE $1 <> '' AND $2 >= CAST(0 AS BIGINT)`
	return strings.ReplaceAll(query, "COLUMN", quotaColumns[level])
}

func scanUsage(r row) (u quota.Usage, err error) {
	err = r.Scan(&u.Claims, &u.ClaimsPerMinute, &u.State)
	return u, translateError(err)
}

// checkQuotas returns an error if a new claim would exceed a quota.
//
// Changes that add a claim of the same tenant, key or workload wait for each other
// where that has a quota, until they have ended: each counts what the ones before it
// have added. Nothing but a new claim makes a count grow.
func checkQuotas(t *tx, c claim.Claim) error {
	scopes := []quota.Scope{
		{Level: quota.Tenant, Name: c.Tenant}, {Level: quota.Key, Name: quota.KeyOf(c.Actor)}, {Level: quota.Workload, Name: c.Workload},
	}
	limits, err := limitsOf(t, scopes)
	if err != nil {
		return err
	}
	locked := false
	for i, s := range scopes {
		if limitsClaims(s, limits[i]) {
			locked = true
			if err := t.lockQuota(string(s.Level) + "/" + s.Name); err != nil {
				return err
			}
		}
	}
	if !locked {
		return nil
	}
	// They may have changed before the lock was granted.
	if limits, err = limitsOf(t, scopes); err != nil {
		return err
	}
	for i, s := range scopes {
		if limitsClaims(s, limits[i]) {
			if err := admit(t, s, limits[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// limitsClaims reports whether a scope has limits that a new claim may exceed.
func limitsClaims(s quota.Scope, l quota.Limits) bool {
	for _, c := range usageCounts {
		if _, ok := l.Of(c.kind); ok {
			return s.Name != ""
		}
	}
	return false
}

// limitsOf returns the limits of a tenant, a key and a workload.
func limitsOf(t *tx, scopes []quota.Scope) ([]quota.Limits, error) {
	limits, texts := make([]quota.Limits, len(scopes)), make([]string, len(scopes))
	err := t.query(selectLimits, scopes[0].Name, scopes[1].Name, scopes[2].Name).Scan(&texts[0], &texts[1], &texts[2])
	if err != nil {
		return nil, translateError(err)
	}
	for i, s := range scopes {
		if texts[i] != "" {
			if err := decode(texts[i], &limits[i]); err != nil {
				return nil, err
			}
		}
		limits[i] = limits[i].Over(t.quotas[s.Level])
	}
	return limits, nil
}

// admit returns an error if one more claim would exceed the limits of a scope.
func admit(t *tx, s quota.Scope, l quota.Limits) error {
	since := toNanos(t.now.Add(-quota.Window))
	u, err := scanUsage(t.query(usageQuery(s.Level, func(k quota.Kind) bool { _, ok := l.Of(k); return ok }), s.Name, since))
	if err != nil {
		return err
	}
	return s.Admit(l, u, t.now, func(n int64) (time.Time, error) {
		at, err := scanNumber(t.query(strings.ReplaceAll(recentClaim, "COLUMN", quotaColumns[s.Level]), s.Name, since, n-1))
		return fromNanos(at), translateError(err)
	})
}

// putStateSize records what the tenant's current snapshot occupies.
func putStateSize(t *tx, c claim.Claim, bytes int64) error {
	return t.execLater(putStateBytes, c.Workload, c.Tenant, quota.KeyOf(c.Actor), bytes, toNanos(t.now))
}

// SetStateSize records the same without a claim, with the events of what has changed
// the size. The state of a tenant that had no claim counts for no key.
func (db *DB) SetStateSize(ctx context.Context, workload, tenant string, bytes int64, events ...activity.Event) error {
	err := db.writer.update(ctx, func(t *tx) error {
		if err := t.execLater(setStateBytes, workload, tenant, bytes, toNanos(t.now)); err != nil {
			return err
		}
		return t.addEvents(events...)
	})
	if err != nil {
		return fmt.Errorf("record the size of the state of tenant %s: %w", tenant, err)
	}
	return nil
}

// QuotaOverrides implements quota.Store.
func (db *DB) QuotaOverrides(ctx context.Context) ([]quota.Override, error) {
	return queryAll(ctx, db, "quotas", selectQuotas, nil, func(r row) (o quota.Override, err error) {
		if err := r.Scan((*string)(&o.Level), &o.Name, object[quota.Limits]{&o.Limits}, (*nanos)(&o.UpdatedAt)); err != nil {
			return o, err
		}
		return o, nil
	})
}

// QuotaVersion implements quota.Store.
func (db *DB) QuotaVersion(ctx context.Context) (int64, error) {
	n, err := queryRow(ctx, db, scanNumber, quotaVersion)
	if err != nil {
		return 0, fmt.Errorf("read the version of the quotas: %w", err)
	}
	return n, nil
}

// QuotaOverride implements quota.Store.
func (db *DB) QuotaOverride(ctx context.Context, s quota.Scope) (l quota.Limits, ok bool, err error) {
	text, err := queryRow(ctx, db, scanText, selectQuota, string(s.Level), s.Name)
	if errors.Is(err, sql.ErrNoRows) {
		return l, false, nil
	}
	if err != nil {
		return l, false, fmt.Errorf("read the quota of %s %s: %w", s.Level, s.Name, err)
	}
	return l, true, decode(text, &l)
}

// QuotaUsage implements quota.Store.
func (db *DB) QuotaUsage(ctx context.Context, s quota.Scope) (quota.Usage, error) {
	query := usageQuery(s.Level, func(quota.Kind) bool { return true })
	u, err := queryRow(ctx, db, scanUsage, query, s.Name, toNanos(time.Now().Add(-quota.Window)))
	if err != nil {
		return u, fmt.Errorf("read what %s %s uses: %w", s.Level, s.Name, err)
	}
	return u, nil
}

// PutQuota implements quota.Store.
func (db *DB) PutQuota(ctx context.Context, s quota.Scope, l quota.Limits) error {
	text, err := encode(l)
	if err != nil {
		return err
	}
	err = db.writer.update(ctx, func(t *tx) error {
		// The version's row is locked first, so that no two count the same.
		if err := t.execLater(raiseQuotas); err != nil {
			return err
		}
		if err := t.lockQuota(string(s.Level) + "/" + s.Name); err != nil {
			return err
		}
		if err := t.execLater(putQuota, string(s.Level), s.Name, text, toNanos(t.now)); err != nil {
			return err
		}
		n, err := scanNumber(t.query(countQuotas))
		if err != nil {
			return translateError(err)
		}
		if n > quota.MaxOverrides {
			return quota.ErrTooMany
		}
		return t.addEvents(quotaEvent(activity.QuotaChanged, s, l))
	})
	if err != nil {
		return fmt.Errorf("set the quota of %s %s: %w", s.Level, s.Name, err)
	}
	return nil
}

// DeleteQuota implements quota.Store.
func (db *DB) DeleteQuota(ctx context.Context, s quota.Scope) error {
	err := db.writer.update(ctx, func(t *tx) error {
		if err := t.execLater(raiseQuotas); err != nil {
			return err
		}
		if err := t.lockQuota(string(s.Level) + "/" + s.Name); err != nil {
			return err
		}
		text, err := scanText(t.query(selectQuota, string(s.Level), s.Name))
		if errors.Is(err, sql.ErrNoRows) {
			return quota.ErrNotFound
		}
		if err != nil {
			return translateError(err)
		}
		var before quota.Limits
		if err := decode(text, &before); err != nil {
			return err
		}
		if err := t.execLater(deleteQuota, string(s.Level), s.Name); err != nil {
			return err
		}
		return t.addEvents(quotaEvent(activity.QuotaRemoved, s, before))
	})
	if err != nil {
		return fmt.Errorf("remove the quota of %s %s: %w", s.Level, s.Name, err)
	}
	return nil
}

// quotaEvent returns the event of a change of a scope's limits.
func quotaEvent(is activity.Type, s quota.Scope, l quota.Limits) activity.Event {
	e := activity.Event{Type: is, Message: fmt.Sprintf("quota of %s %s: %s", s.Level, s.Name, l)}
	if is == activity.QuotaRemoved {
		e.Message = fmt.Sprintf("quota of %s %s is removed", s.Level, s.Name)
	}
	switch s.Level {
	case quota.Tenant:
		e.Tenant = s.Name
	case quota.Workload:
		e.Workload = s.Name
	}
	e.Data = activity.Data(activity.QuotaData{
		Level: string(s.Level), Name: s.Name,
		Claims: l.Claims, ClaimsPerMinute: l.ClaimsPerMinute, State: l.State, RequestsPerSecond: l.RequestsPerSecond,
	})
	return e
}
