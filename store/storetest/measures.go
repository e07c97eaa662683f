package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
)

// Measures have every workload, also one without any container, and nothing of what
// has ended.
func measures(t *testing.T, s Store) {
	ctx := t.Context()
	require.NoError(t, s.PutWorkload(ctx, pool.Record{ID: "empty", Revision: rev, MinIdle: 1, MaxSize: 2, Draining: true, Deleting: true}))
	active := addIdleContainer(t, s, rev, "")
	c := addActiveClaim(t, s, "ann")
	require.Equal(t, active, c.Container)
	ended := addIdleContainer(t, s, rev, "")
	done := addActiveClaim(t, s, "bob")
	require.Equal(t, ended, done.Container)
	mustUpdateClaim(t, s, releasingTransition(done.ID))
	mustUpdateClaim(t, s, releasedTransition(done.ID))
	mustUpdateContainer(t, s, destroyingTransition(ended))
	mustUpdateContainer(t, s, destroyedTransition(ended))
	addIdleContainer(t, s, oldRev, "")
	unhealthy := addIdleContainer(t, s, rev, "eve")
	mustUpdateContainer(t, s, pool.Transition{
		ID: unhealthy, From: []pool.State{pool.Idle}, To: pool.Idle, Set: func(c *pool.Container) { c.Health = pool.Exited },
	})
	require.NoError(t, s.UpdateBreaker(ctx, web, func(b *pool.Breaker) []activity.Event {
		b.Failures = 5
		return nil
	}))

	m, err := s.Measure(ctx, store.MeasureQuery{Workloads: 10})
	require.NoError(t, err)
	require.Equal(t, store.Measures{
		Workloads: 2, LastSeq: lastSeq(t, s),
		Pools: []store.PoolMeasures{
			{
				Workload: "empty", MinIdle: 1, MaxSize: 2, Deleting: true, Fill: pool.FillStatus{State: pool.FillDraining},
				Containers: map[pool.State]int{}, Claims: map[claim.State]int{},
			}, {
				Workload: web, MaxSize: unlimited, Fill: pool.FillStatus{State: pool.FillFailing, Failures: 5},
				Containers: map[pool.State]int{pool.Idle: 2, pool.Claimed: 1}, Outdated: 1, Unhealthy: 1,
				Claims: map[claim.State]int{claim.Active: 1},
			},
		},
	}, m)
	m, err = s.Measure(ctx, store.MeasureQuery{Workloads: 1, Protocol: 1 << 20})
	require.NoError(t, err)
	require.Equal(t, 2, m.Workloads)
	require.Len(t, m.Pools, 1)
	require.Equal(t, "empty", m.Pools[0].Workload, "what is beyond the limit is in no other pool")
}

// Measures have the times since which claims wait, releases fail and hooks run.
func lateMeasures(t *testing.T, s Store) {
	ctx := t.Context()
	PutWorkloads(t, s, web)
	var first claim.Claim
	for _, tenant := range []string{"wai", "ting"} {
		c, err := s.Reserve(ctx, newReservation(tenant))
		require.ErrorIs(t, err, claim.ErrNoIdleContainer)
		if first.ID == "" {
			first = c
		}
	}
	began := time.Unix(1700000000, 0).UTC()
	for i, tenant := range []string{"ann", "bob", "eve"} {
		addIdleContainer(t, s, rev, tenant)
		r := newReservation(tenant)
		r.OwnOnly = true
		c, err := s.Reserve(ctx, r)
		require.NoError(t, err)
		mustUpdateClaim(t, s, activeTransition(c.ID))
		mustUpdateClaim(t, s, releasingTransition(c.ID))
		failed := claim.Retain(c.ID, "test", activity.ClaimReleaseFailedData{})
		failed.Set = func(c *claim.Claim) { c.Failures, c.FailedAt = 2, new(began.Add(time.Duration(3-i)*time.Hour)) }
		mustUpdateClaim(t, s, failed)
		if tenant == "eve" { // the oldest one is being retried
			mustUpdateClaim(t, s, releasingTransition(c.ID))
		}
	}
	run := newAttempt("0198c0de-0000-7000-8000-000000000001", 1)
	run.Claim, run.Container, run.StartedAt = "", addContainer(t, s, rev), began
	require.NoError(t, s.RunStarted(ctx, run))
	later := run
	later.ID, later.StartedAt = "0198c0de-0000-7000-8000-000000000000", began.Add(time.Second)
	require.NoError(t, s.RunStarted(ctx, later))

	m, err := s.Measure(ctx, store.MeasureQuery{Workloads: 10, OverdueBefore: began.Add(time.Second), Overdue: 10})
	require.NoError(t, err)
	p := m.Pools[0]
	require.Equal(t, map[claim.State]int{claim.Pending: 2, claim.ReleaseFailed: 2, claim.Releasing: 1}, p.Claims)
	require.Equal(t, 2, p.Waiting)
	require.True(t, first.CreatedAt.Equal(p.OldestWaiting))
	require.Equal(t, 3, p.Kept)
	require.Equal(t, began.Add(time.Hour), p.OldestKept)
	require.Equal(t, []hooks.Run{{
		ID: run.ID, Point: run.Point, Hook: run.Hook, Index: run.Index, Workload: web, Container: run.Container, StartedAt: began,
	}}, m.Overdue)
	m, err = s.Measure(ctx, store.MeasureQuery{OverdueBefore: began.Add(time.Hour), Overdue: 1})
	require.NoError(t, err)
	require.Equal(t, []string{run.ID}, []string{m.Overdue[0].ID}, "the oldest one")
}
