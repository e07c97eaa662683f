package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/quota"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/postgrestest"
)

// No claim is added beyond a quota, whatever number of servers add some at once.
func TestPostgresQuotaRace(t *testing.T) {
	target := postgrestest.Schema(t)
	const live = ` FROM claims WHERE state IN ('pending', 'active', 'releasing', 'release_failed')`
	raceForQuota(t, func() int64 {
		return postgrestest.QueryInt(t, target, `SELECT count(*)`+live)
	}, openDB(t, target), openDB(t, target), openDB(t, target))
}

// A reader of SQLite sees what is committed.
func TestSQLiteQuotaRace(t *testing.T) {
	db := openDB(t, t.TempDir()+"/hostler.db")
	raceForQuota(t, func() int64 {
		all, err := db.Claims(t.Context(), claim.Filter{})
		require.NoError(t, err)
		return int64(len(all))
	}, db)
}

// raceForQuota makes 200 tenants claim and end their claims on all servers at once,
// while each of the levels limits them.
func raceForQuota(t *testing.T, live func() int64, servers ...*store.DB) {
	const limit, tenants, turns = 7, 200, 3
	for _, level := range []quota.Level{quota.Workload, quota.Key} {
		for _, db := range servers {
			db.SetQuotas(quota.Defaults{level: {Claims: new(int64(limit))}})
		}
		var added, refused, most atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		var g errgroup.Group
		for i := range tenants {
			g.Go(func() error {
				for turn := range turns {
					err := claimOnce(ctx, servers[(i+turn)%len(servers)], fmt.Sprint(level, i))
					if exceeded, ok := errors.AsType[*quota.ExceededError](err); ok {
						if exceeded.Current > limit {
							return fmt.Errorf("%d live claims: %w", exceeded.Current, err)
						}
						refused.Add(1)
						continue
					}
					if err != nil {
						return err
					}
					added.Add(1)
				}
				return nil
			})
		}
		done := make(chan error, 1)
		var reader errgroup.Group
		reader.Go(func() error { done <- g.Wait(); cancel(); return nil })
		for ctx.Err() == nil {
			most.Store(max(most.Load(), live()))
		}
		require.NoError(t, reader.Wait())
		require.NoError(t, <-done)
		require.LessOrEqual(t, most.Load(), int64(limit))
		require.Positive(t, refused.Load())
		require.GreaterOrEqual(t, added.Load(), int64(limit))
		t.Logf("%s: %d claims added, %d refused, at most %d seen live", level, added.Load(), refused.Load(), most.Load())
		require.Zero(t, live())
	}
}

// claimOnce adds a claim, which waits for a container, and ends it.
func claimOnce(ctx context.Context, db *store.DB, tenant string) error {
	r := claim.Reservation{Claim: uuid.NewString(), Workload: "web", Tenant: tenant, Revision: "r", Actor: "key:ci", EnqueueOnly: true}
	c, err := db.Reserve(context.WithoutCancel(ctx), r)
	if err != nil && !errors.Is(err, claim.ErrNoIdleContainer) {
		return err
	}
	_, err = db.UpdateClaim(context.WithoutCancel(ctx), claim.Fail(c.ID, "test"))
	return err
}

// The rate holds for all servers together, in each window.
func TestPostgresQuotaOfRateRace(t *testing.T) {
	target := postgrestest.Schema(t)
	servers := []*store.DB{openDB(t, target), openDB(t, target)}
	for _, db := range servers {
		db.SetQuotas(quota.Defaults{quota.Key: {ClaimsPerMinute: new(int64(30))}})
	}
	var g errgroup.Group
	var added atomic.Int64
	for i := range 100 {
		g.Go(func() error {
			err := claimOnce(t.Context(), servers[i%2], fmt.Sprint("t", i))
			if _, ok := errors.AsType[*quota.ExceededError](err); ok {
				return nil
			}
			added.Add(1)
			return err
		})
	}
	require.NoError(t, g.Wait())
	require.Equal(t, int64(30), added.Load())
}

// A limit that an operator has set holds for the next claim on another server.
func TestPostgresQuotaHoldsAtOnce(t *testing.T) {
	target := postgrestest.Schema(t)
	one, other := openDB(t, target), openDB(t, target)
	ctx := t.Context()
	web := quota.Scope{Level: quota.Workload, Name: "web"}
	for i := range 20 {
		limit := int64(i % 3)
		require.NoError(t, one.PutQuota(ctx, web, quota.Limits{Claims: &limit}))
		var admitted int64
		for n := range 4 {
			r := claim.Reservation{Claim: uuid.NewString(), Workload: "web", Tenant: fmt.Sprint(n), Revision: "r", EnqueueOnly: true}
			if _, err := other.Reserve(ctx, r); errors.Is(err, claim.ErrNoIdleContainer) {
				admitted++
				continue
			}
		}
		require.Equal(t, limit, admitted)
		all, err := other.Claims(ctx, claim.Filter{})
		require.NoError(t, err)
		for _, c := range all {
			_, err := other.UpdateClaim(ctx, claim.Fail(c.ID, "test"))
			require.NoError(t, err)
		}
	}
	u, err := one.QuotaUsage(ctx, web)
	require.NoError(t, err)
	require.Zero(t, u.Claims)
}
