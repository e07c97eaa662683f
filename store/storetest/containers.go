package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
)

// A transition happens only from the states that it names, and the returned
// record is the stored one.
func containerTransitions(t *testing.T, s Store) {
	ctx := t.Context()
	id := addContainer(t, s, rev)
	c, err := s.Container(ctx, id)
	require.NoError(t, err)
	require.Equal(t, pool.Creating, c.State)
	require.Equal(t, rev, c.Revision)
	require.False(t, c.CreatedAt.IsZero())
	require.Equal(t, c.CreatedAt, c.ChangedAt)

	moved := mustUpdateContainer(t, s, idleTransition(id, ""))
	require.Equal(t, pool.Idle, moved.State)
	require.Equal(t, endpoint, moved.Endpoint)
	require.False(t, moved.ChangedAt.Before(c.ChangedAt))
	kept, err := s.Container(ctx, id)
	require.NoError(t, err)
	require.Equal(t, kept, moved)

	_, err = s.UpdateContainer(ctx, idleTransition(id, ""))
	require.ErrorIs(t, err, pool.ErrConflict, "it is no longer being created")
	_, err = s.UpdateContainer(ctx, idleTransition(newID(), ""))
	require.ErrorIs(t, err, pool.ErrContainerNotFound)
	_, err = s.Container(ctx, newID())
	require.ErrorIs(t, err, pool.ErrContainerNotFound)

	check := pool.Note(id, pool.Idle, nil)
	check.If = func(c pool.Container) bool { return c.Health == pool.Unhealthy }
	_, err = s.UpdateContainer(ctx, check)
	require.ErrorIs(t, err, pool.ErrConflict, "the condition of the change does not hold")
	check.If = func(c pool.Container) bool { return c.ID == id }
	require.Equal(t, kept, mustUpdateContainer(t, s, check))

	same := mustUpdateContainer(t, s, pool.Transition{
		ID: id, From: []pool.State{pool.Idle}, To: pool.Idle,
		Set: func(c *pool.Container) { c.Health, c.ID, c.Workload = pool.Unhealthy, "other", "other" },
	})
	require.Equal(t, pool.Unhealthy, same.Health)
	require.Equal(t, moved.ChangedAt, same.ChangedAt, "its state has not changed since")
	require.Equal(t, id, same.ID, "a record's id never changes")
	require.Equal(t, web, same.Workload)

	mustUpdateContainer(t, s, destroyingTransition(id))
	mustUpdateContainer(t, s, destroyedTransition(id))
	destroyed, err := s.Container(ctx, id)
	require.NoError(t, err, "a record outlives its container")
	require.Equal(t, pool.Destroyed, destroyed.State)
	require.Equal(t, "test", destroyed.Reason)
	requireLogMatchesRecords(t, s)
}

// Events have the values of the record before the change: a reader of
// "released" needs to know which claim held it.
func containerEvents(t *testing.T, s Store) {
	addIdleContainer(t, s, rev, "")
	c := addActiveClaim(t, s, "ann")
	from := lastSeq(t, s)
	mustUpdateContainer(t, s, destroyingTransition(c.Container))
	all := events(t, s, activity.Filter{}, from)
	require.Len(t, all, 1)
	e := all[0]
	require.Equal(t, []string{web, c.Container, "ann", c.ID}, []string{e.Workload, e.Container, e.Tenant, e.Claim})
	require.JSONEq(t, `{"previous_state":"claimed","reason":"test"}`, string(e.Data))
	require.False(t, e.Time.IsZero())
}

// max_size counts all containers that exist, and does not depend on races.
func poolFull(t *testing.T, s Store) {
	ctx := t.Context()
	first := addContainer(t, s, rev)
	second := pool.Container{ID: newID(), Workload: web, Revision: rev}
	from := lastSeq(t, s)
	require.ErrorIs(t, s.AddContainer(ctx, second, 1), pool.ErrFull)
	require.Equal(t, from, lastSeq(t, s), "no event for a change that was refused")

	mustUpdateContainer(t, s, destroyingTransition(first))
	require.ErrorIs(t, s.AddContainer(ctx, second, 1), pool.ErrFull, "it still exists")
	mustUpdateContainer(t, s, destroyedTransition(first))
	require.NoError(t, s.AddContainer(ctx, second, 1))
	require.Error(t, s.AddContainer(ctx, second, 5), "there is one of that id")
	PutWorkloads(t, s, "other")
	other := pool.Container{ID: newID(), Workload: "other", Revision: rev}
	require.NoError(t, s.AddContainer(ctx, other, 1), "each workload has its own bound")
}

// A container may be created for a waiting claim.
func containerForClaim(t *testing.T, s Store) {
	ctx := t.Context()
	PutWorkloads(t, s, web)
	r := newReservation("ann")
	_, err := s.Reserve(ctx, r)
	require.ErrorIs(t, err, claim.ErrNoIdleContainer)
	c := pool.Container{ID: newID(), Workload: web, Revision: rev, Claim: r.Claim}
	require.NoError(t, s.AddContainer(ctx, c, 5))
	k, err := s.Claim(ctx, r.Claim)
	require.NoError(t, err)
	require.Equal(t, []string{c.ID, rev, string(claim.Fresh)}, []string{k.Container, k.Revision, string(k.Source)})
	c, err = s.Container(ctx, c.ID)
	require.NoError(t, err)
	require.Equal(t, []string{"ann", r.Claim}, []string{c.Tenant, c.Claim})

	c.ID = newID()
	require.ErrorIs(t, s.AddContainer(ctx, c, 5), pool.ErrConflict, "the claim has a container")
	c.Claim = newID()
	require.ErrorIs(t, s.AddContainer(ctx, c, 5), claim.ErrClaimNotFound)
}

func containerLists(t *testing.T, s Store) {
	ctx := t.Context()
	a, b := addIdleContainer(t, s, rev, "ann"), addContainer(t, s, rev)
	destroyed := addIdleContainer(t, s, rev, "")
	mustUpdateContainer(t, s, destroyingTransition(destroyed))
	mustUpdateContainer(t, s, destroyedTransition(destroyed))
	PutWorkloads(t, s, "other")
	other := newID()
	require.NoError(t, s.AddContainer(ctx, pool.Container{ID: other, Workload: "other", Revision: rev}, 1))

	mustUpdateContainer(t, s, pool.Note(a, pool.Idle, func(c *pool.Container) { c.Health, c.Reason = pool.Unhealthy, pool.TerminatingReason }))
	mustUpdateContainer(t, s, pool.Note(b, pool.Creating, func(c *pool.Container) { c.Health, c.Reason = pool.Unhealthy, "another" }))

	for name, c := range map[string]struct {
		f    pool.ContainerFilter
		want []string
	}{
		"terminating":       {pool.ContainerFilter{IsTerminating: true}, []string{a}},
		"all but destroyed": {pool.ContainerFilter{}, []string{a, b, other}},
		"destroyed":         {pool.ContainerFilter{States: []pool.State{pool.Destroyed}}, []string{destroyed}},
		"every":             {pool.ContainerFilter{States: pool.States()}, []string{a, b, destroyed, other}},
		"workload":          {pool.ContainerFilter{Workload: web}, []string{a, b}},
		"tenant":            {pool.ContainerFilter{Tenant: "ann"}, []string{a}},
		"state":             {pool.ContainerFilter{States: []pool.State{pool.Creating, pool.Claimed}}, []string{b, other}},
		"first page":        {pool.ContainerFilter{Limit: 2}, []string{a, b}},
		"next page":         {pool.ContainerFilter{Limit: 2, After: b}, []string{other}},
		"newest":            {pool.ContainerFilter{Newest: true, Limit: 2}, []string{other, b}},
		"older page":        {pool.ContainerFilter{Newest: true, States: pool.States(), After: b}, []string{a}},
		"end of id":         {pool.ContainerFilter{IDPart: b[28:]}, []string{b}},
		"no such tenant":    {pool.ContainerFilter{Tenant: "' OR 1=1 --"}, nil},
	} {
		all, err := s.Containers(ctx, c.f)
		require.NoError(t, err, name)
		var ids []string
		for _, k := range all {
			ids = append(ids, k.ID)
		}
		require.Equal(t, c.want, ids, name)
	}
}

func containerCounts(t *testing.T, s Store) {
	ctx := t.Context()
	for range 3 {
		addIdleContainer(t, s, rev, "")
	}
	unhealthy := addIdleContainer(t, s, rev, "ann")
	mustUpdateContainer(t, s, pool.Transition{
		ID: unhealthy, From: []pool.State{pool.Idle}, To: pool.Idle,
		Set: func(c *pool.Container) { c.Health = pool.Exited },
	})
	addContainer(t, s, oldRev)
	destroyed := addIdleContainer(t, s, rev, "")
	mustUpdateContainer(t, s, destroyingTransition(destroyed))
	mustUpdateContainer(t, s, destroyedTransition(destroyed))

	counts, err := s.Counts(ctx, web)
	require.NoError(t, err)
	require.ElementsMatch(t, []pool.Count{
		{Revision: oldRev, State: pool.Creating, Healthy: true, N: 1},
		{Revision: rev, State: pool.Idle, Healthy: true, N: 3},
		{Revision: rev, State: pool.Idle, Used: true, N: 1},
	}, counts)
	measured, err := s.Measure(ctx, store.MeasureQuery{Workloads: 1})
	require.NoError(t, err)
	require.Equal(t, map[pool.State]int{pool.Idle: 4, pool.Creating: 1}, measured.Pools[0].Containers)
}

// What the schema forbids is an error, and neither the change nor its event is
// stored.
func containerConstraints(t *testing.T, s Store) {
	ctx := t.Context()
	id := addIdleContainer(t, s, rev, "")
	before, err := s.Container(ctx, id)
	require.NoError(t, err)
	from := lastSeq(t, s)
	for name, m := range map[string]pool.Transition{
		"unknown health":          {To: pool.Idle, Set: func(c *pool.Container) { c.Health = "splendid" }},
		"unknown state":           {To: "somewhere"},
		"claimed without a claim": {To: pool.Claimed},
	} {
		m.ID, m.From = id, []pool.State{pool.Idle}
		m.Events = []activity.Event{{Type: activity.ContainerCreated, Message: "never"}}
		_, err := s.UpdateContainer(ctx, m)
		require.Error(t, err, name)
	}
	after, err := s.Container(ctx, id)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.Equal(t, from, lastSeq(t, s))
}
