package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
)

// A move happens only from the states that it names, and what is returned is
// what is kept.
func containerMoves(t *testing.T, s Store) {
	ctx := t.Context()
	id := add(t, s, rev)
	c, err := s.Container(ctx, id)
	require.NoError(t, err)
	require.Equal(t, pool.Creating, c.State)
	require.Equal(t, rev, c.Revision)
	require.False(t, c.CreatedAt.IsZero())
	require.Equal(t, c.CreatedAt, c.ChangedAt)

	moved := shift(t, s, ready(id, ""))
	require.Equal(t, pool.Idle, moved.State)
	require.Equal(t, endpoint, moved.Endpoint)
	require.False(t, moved.ChangedAt.Before(c.ChangedAt))
	kept, err := s.Container(ctx, id)
	require.NoError(t, err)
	require.Equal(t, kept, moved)

	_, err = s.MoveContainer(ctx, ready(id, ""))
	require.ErrorIs(t, err, pool.ErrMoved, "it is no longer being created")
	_, err = s.MoveContainer(ctx, ready(newID(), ""))
	require.ErrorIs(t, err, pool.ErrNoContainer)
	_, err = s.Container(ctx, newID())
	require.ErrorIs(t, err, pool.ErrNoContainer)

	same := shift(t, s, pool.Move{
		ID: id, From: []pool.State{pool.Idle}, To: pool.Idle,
		Set: func(c *pool.Container) { c.Health, c.ID, c.Workload = pool.Unhealthy, "other", "other" },
	})
	require.Equal(t, pool.Unhealthy, same.Health)
	require.Equal(t, moved.ChangedAt, same.ChangedAt, "its state is the same since then")
	require.Equal(t, id, same.ID, "what a record is about never changes")
	require.Equal(t, web, same.Workload)

	shift(t, s, condemn(id))
	shift(t, s, bury(id))
	gone, err := s.Container(ctx, id)
	require.NoError(t, err, "a record outlives its container")
	require.Equal(t, pool.Gone, gone.State)
	require.Equal(t, "test", gone.Reason)
	agree(t, s)
}

// Events say what the record said before: who held it is what a reader of
// "released" wants to know.
func containerEvents(t *testing.T, s Store) {
	idle(t, s, rev, "")
	c := claimed(t, s, "ann")
	from := last(t, s)
	shift(t, s, condemn(c.Container))
	all := events(t, s, activity.Filter{}, from)
	require.Len(t, all, 1)
	e := all[0]
	require.Equal(t, []string{web, c.Container, "ann", c.ID}, []string{e.Workload, e.Container, e.Tenant, e.Claim})
	require.JSONEq(t, `{"reason":"test"}`, string(e.Data))
	require.False(t, e.Time.IsZero())
}

// max_size counts all that exist, and is no matter of races.
func poolFull(t *testing.T, s Store) {
	ctx := t.Context()
	first := add(t, s, rev)
	second := pool.Container{ID: newID(), Workload: web, Revision: rev}
	from := last(t, s)
	require.ErrorIs(t, s.AddContainer(ctx, second, 1), pool.ErrFull)
	require.Equal(t, from, last(t, s), "no event of what did not happen")

	shift(t, s, condemn(first))
	require.ErrorIs(t, s.AddContainer(ctx, second, 1), pool.ErrFull, "it still exists")
	shift(t, s, bury(first))
	require.NoError(t, s.AddContainer(ctx, second, 1))
	require.Error(t, s.AddContainer(ctx, second, 5), "there is one of that id")
	other := pool.Container{ID: newID(), Workload: "other", Revision: rev}
	require.NoError(t, s.AddContainer(ctx, other, 1), "the bound is the workload's own")
}

// A container may be created for a claim that waits.
func containerForClaim(t *testing.T, s Store) {
	ctx := t.Context()
	r := wish("ann")
	_, err := s.Reserve(ctx, r)
	require.ErrorIs(t, err, claim.ErrNoneIdle)
	c := pool.Container{ID: newID(), Workload: web, Revision: rev, Claim: r.Claim}
	require.NoError(t, s.AddContainer(ctx, c, 5))
	k, err := s.Claim(ctx, r.Claim)
	require.NoError(t, err)
	require.Equal(t, []string{c.ID, rev, string(claim.Fresh)}, []string{k.Container, k.Revision, string(k.Source)})
	c, err = s.Container(ctx, c.ID)
	require.NoError(t, err)
	require.Equal(t, []string{"ann", r.Claim}, []string{c.Tenant, c.Claim})

	c.ID = newID()
	require.ErrorIs(t, s.AddContainer(ctx, c, 5), pool.ErrMoved, "the claim has a container")
	c.Claim = newID()
	require.ErrorIs(t, s.AddContainer(ctx, c, 5), claim.ErrNoClaim)
}

func containerLists(t *testing.T, s Store) {
	ctx := t.Context()
	a, b := idle(t, s, rev, "ann"), add(t, s, rev)
	gone := idle(t, s, rev, "")
	shift(t, s, condemn(gone))
	shift(t, s, bury(gone))
	other := newID()
	require.NoError(t, s.AddContainer(ctx, pool.Container{ID: other, Workload: "other", Revision: rev}, 1))

	for name, c := range map[string]struct {
		f    pool.ContainerFilter
		want []string
	}{
		"all but gone":   {pool.ContainerFilter{}, []string{a, b, other}},
		"gone":           {pool.ContainerFilter{States: []pool.State{pool.Gone}}, []string{gone}},
		"every":          {pool.ContainerFilter{States: pool.States()}, []string{a, b, gone, other}},
		"workload":       {pool.ContainerFilter{Workload: web}, []string{a, b}},
		"tenant":         {pool.ContainerFilter{Tenant: "ann"}, []string{a}},
		"state":          {pool.ContainerFilter{States: []pool.State{pool.Creating, pool.Claimed}}, []string{b, other}},
		"first page":     {pool.ContainerFilter{Limit: 2}, []string{a, b}},
		"next page":      {pool.ContainerFilter{Limit: 2, After: b}, []string{other}},
		"no such tenant": {pool.ContainerFilter{Tenant: "' OR 1=1 --"}, nil},
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
		idle(t, s, rev, "")
	}
	sick := idle(t, s, rev, "ann")
	shift(t, s, pool.Move{
		ID: sick, From: []pool.State{pool.Idle}, To: pool.Idle,
		Set: func(c *pool.Container) { c.Health = pool.Dead },
	})
	add(t, s, oldRev)
	gone := idle(t, s, rev, "")
	shift(t, s, condemn(gone))
	shift(t, s, bury(gone))

	counts, err := s.Counts(ctx, web)
	require.NoError(t, err)
	require.ElementsMatch(t, []pool.Count{
		{Revision: oldRev, State: pool.Creating, Healthy: true, N: 1},
		{Revision: rev, State: pool.Idle, Healthy: true, N: 3},
		{Revision: rev, State: pool.Idle, Used: true, N: 1},
	}, counts)
	byState, err := s.CountContainers(ctx)
	require.NoError(t, err)
	require.Equal(t, map[string]map[pool.State]int{web: {pool.Idle: 4, pool.Creating: 1}}, byState)
}

// What the schema forbids is an error, and leaves neither the change nor its
// event.
func containerImpossible(t *testing.T, s Store) {
	ctx := t.Context()
	id := idle(t, s, rev, "")
	before, err := s.Container(ctx, id)
	require.NoError(t, err)
	from := last(t, s)
	for name, m := range map[string]pool.Move{
		"no such health":    {To: pool.Idle, Set: func(c *pool.Container) { c.Health = "splendid" }},
		"no such state":     {To: "somewhere"},
		"claimed by nobody": {To: pool.Claimed},
	} {
		m.ID, m.From = id, []pool.State{pool.Idle}
		m.Events = []activity.Event{{Type: activity.ContainerCreated, Message: "never"}}
		_, err := s.MoveContainer(ctx, m)
		require.Error(t, err, name)
	}
	after, err := s.Container(ctx, id)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.Equal(t, from, last(t, s))
}
