package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/quota"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// BenchmarkClaimRelease measures a claim and its release as the flows record
// them: reserve, active, releasing, released; four changes, five events. An
// operation is one such durable pair.
func BenchmarkClaimRelease(b *testing.B) {
	for _, e := range databases {
		for _, history := range []int{0, 10_000, 100_000} {
			b.Run(fmt.Sprintf("store=%s/history=%d", e.name, history), func(b *testing.B) {
				db := openBench(b, e.dsn(b))
				addHistory(b, db, history)
				for _, parallel := range []int{1, 10, 100} {
					b.Run(fmt.Sprintf("parallel=%d", parallel), func(b *testing.B) { runClaimCycles(b, db, parallel) })
				}
			})
		}
	}
}

// BenchmarkClaimReleaseWithQuotas measures the same with quotas of all levels, none of
// which is exceeded: the claims of a workload wait for each other.
func BenchmarkClaimReleaseWithQuotas(b *testing.B) {
	limits := quota.Limits{Claims: new(int64(1000)), ClaimsPerMinute: new(int64(1_000_000)), State: new(int64(1 << 40))}
	for _, e := range databases {
		for _, q := range []struct {
			name     string
			defaults quota.Defaults
		}{
			{"none", nil},
			{"tenant", quota.Defaults{quota.Tenant: limits}},
			{"all", quota.Defaults{quota.Tenant: limits, quota.Key: limits, quota.Workload: limits}},
		} {
			b.Run(fmt.Sprintf("store=%s/quotas=%s", e.name, q.name), func(b *testing.B) {
				db := openBench(b, e.dsn(b))
				db.SetQuotas(q.defaults)
				addHistory(b, db, 10_000)
				for _, parallel := range []int{1, 10} {
					b.Run(fmt.Sprintf("parallel=%d", parallel), func(b *testing.B) { runClaimCycles(b, db, parallel) })
				}
			})
		}
	}
}

// runClaimCycles makes b.N claims and releases, with the given concurrency.
func runClaimCycles(b *testing.B, db *DB, parallel int) {
	name := uuid.NewString() // a workload without earlier claims
	for range parallel {
		addIdleContainer(b, db, name, uuid.Must(uuid.NewV7()).String())
	}
	b.ResetTimer()
	var next atomic.Int64
	var g errgroup.Group
	for w := range parallel {
		g.Go(func() error {
			for next.Add(1) <= int64(b.N) {
				id := uuid.Must(uuid.NewV7()).String()
				if err := claimCycle(b.Context(), db, id, name, fmt.Sprintf("t%d", w)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(b, g.Wait())
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}

// BenchmarkAppendFollow appends events from eight writers while followers read
// all of them. An operation is one event that every follower has read.
func BenchmarkAppendFollow(b *testing.B) {
	for _, e := range databases {
		for _, followers := range []int{0, 1, 50} {
			b.Run(fmt.Sprintf("store=%s/followers=%d", e.name, followers), func(b *testing.B) {
				appendAndFollow(b, openBench(b, e.dsn(b)), followers)
			})
		}
	}
}

func appendAndFollow(b *testing.B, db *DB, followers int) {
	const writers = 8
	b.ResetTimer()
	var g errgroup.Group
	for range followers {
		g.Go(func() error { return followEvents(b.Context(), db, b.N) })
	}
	var next atomic.Int64
	for range writers {
		g.Go(func() error {
			for next.Add(1) <= int64(b.N) {
				e := activity.Event{Type: activity.PoolWarning, Workload: "w", Message: "a sentence of common length for people"}
				if err := db.Append(b.Context(), e); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(b, g.Wait())
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// followEvents reads until it has read n events, and fails when one is missing.
func followEvents(ctx context.Context, db *DB, n int) error {
	var after int64
	for after < int64(n) {
		changed := db.Changed()
		p, err := db.Events(ctx, activity.Filter{}, after, 0)
		if err != nil {
			return err
		}
		for _, e := range p.Items {
			if e.Seq != after+1 {
				return fmt.Errorf("event %d follows %d", e.Seq, after)
			}
			after = e.Seq
		}
		if len(p.Items) == 0 {
			<-changed
		}
	}
	return nil
}

func openBench(b *testing.B, dsn string) *DB {
	b.Helper()
	db, err := Open(b.Context(), dsn)
	require.NoError(b, err)
	b.Cleanup(func() { _ = db.Close() }) // only used for the benchmark
	return db
}

// addIdleContainer adds an idle container.
func addIdleContainer(tb testing.TB, db *DB, workload, id string) {
	tb.Helper()
	ctx := tb.Context()
	if _, err := db.Workload(ctx, workload); errors.Is(err, pool.ErrWorkloadNotFound) {
		require.NoError(tb, db.PutWorkload(ctx, pool.Record{ID: workload, Revision: "r", MaxSize: 1 << 30}))
	}
	require.NoError(tb, db.AddContainer(ctx, pool.Container{ID: id, Workload: workload, Revision: "r"}, 1<<30))
	_, err := db.UpdateContainer(ctx, pool.Transition{
		ID: id, From: []pool.State{pool.Creating}, To: pool.Idle,
		Set: func(c *pool.Container) {
			c.Health = pool.Healthy
			c.Endpoint = runtime.Endpoint{Host: "172.18.0.2", Ports: []int{8080}}
		},
		Events: []activity.Event{{Type: activity.ContainerCreated, Message: "container is ready and idle"}},
	})
	require.NoError(tb, err)
}

// claimCycle makes a claim and releases it.
func claimCycle(ctx context.Context, db *DB, id, name, tenant string) error {
	_, err := db.Reserve(ctx, claim.Reservation{
		Claim: id, Workload: name, Tenant: tenant, Revision: "r", Reuse: workload.ReuseWipe, Actor: "key:bench",
	})
	if err != nil {
		return err
	}
	for _, m := range []claim.Transition{
		{
			From: []claim.State{claim.Pending}, To: claim.Active,
			Set:    func(c *claim.Claim) { c.Timings["reserve"], c.Timings["healthy"] = 0.4, 1.2 },
			Events: []activity.Event{{Type: activity.ClaimActivated, Message: "claim is active"}},
		},
		{
			From: []claim.State{claim.Active}, To: claim.Releasing,
			Events: []activity.Event{{Type: activity.ClaimReleasing, Message: "claim is being released"}},
		},
		{
			From: []claim.State{claim.Releasing}, To: claim.Released,
			Container: &pool.Transition{
				From: []pool.State{pool.Claimed}, To: pool.Idle,
				Events: []activity.Event{{Type: activity.ContainerReleased, Message: "container is idle"}},
			},
			Events: []activity.Event{{Type: activity.ClaimReleased, Message: "claim is released"}},
		},
	} {
		m.ID = id
		if _, err := db.UpdateClaim(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// addHistory adds n ended claims with their events, and n destroyed containers.
func addHistory(tb testing.TB, db *DB, n int) {
	tb.Helper()
	ctx := tb.Context()
	const atOnce = 1000
	for from := 0; from < n; from += atOnce {
		err := db.writer.update(ctx, func(t *tx) error {
			for i := from; i < from+atOnce; i++ {
				c := claim.Claim{
					ID: uuid.Must(uuid.NewV7()).String(), Workload: "w1", Tenant: fmt.Sprintf("t%d", i%100),
					Container: fmt.Sprintf("h%08d", i), State: claim.Released, CreatedAt: t.now, ReleasedAt: &t.now,
				}
				if _, err := addClaim(t, normalized(c)); err != nil {
					return err
				}
				k := pool.Container{
					ID: c.Container, Workload: c.Workload, Revision: "r", State: pool.Destroyed, Tenant: c.Tenant,
					Fence: pool.FirstFence, CreatedAt: t.now, ChangedAt: t.now, Protocol: 1,
				}
				if err := execLater(t, insertContainer, &k, ""); err != nil {
					return err
				}
				if err := t.addEvents(requestedEvent(c), requestedEvent(c)); err != nil {
					return err
				}
			}
			return nil
		})
		require.NoError(tb, err)
	}
}
