package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// speaks has the store be that of a server of a version, which speaks the one
// before as well.
func speaks(s Store, version int) {
	s.Speak(runtime.Protocols{Oldest: version - 1, Current: version})
}

// A claim gets what its server can speak to. What is of an older version is
// outdated: only what nobody has had is taken, and only where there is nothing
// better.
func reserveSpoken(t *testing.T, s Store) {
	made := map[int]map[string]string{} // ids by version and tenant
	for version := 2; version <= 5; version++ {
		speaks(s, version)
		made[version] = map[string]string{}
		for _, tenant := range []string{"", "ann", "bob"} {
			made[version][tenant] = idle(t, s, rev, tenant)
		}
		k, err := s.Container(t.Context(), made[version][""])
		require.NoError(t, err)
		require.Equal(t, version, k.Protocol)
	}
	speaks(s, 4)
	for _, want := range []struct {
		tenant, id string
		source     claim.Source
	}{
		{"ann", made[4]["ann"], claim.Affinity},
		{"joe", made[4][""], claim.Fresh},
		{"kim", made[4]["bob"], claim.Recycled},
		{"lee", made[3][""], claim.Fresh},
		{"bob", "", ""},
	} {
		r := wish(want.tenant)
		r.Reuse = workload.ReuseWipe
		c, err := s.Reserve(t.Context(), r)
		require.Equal(t, want.id, c.Container, want.tenant)
		require.Equal(t, want.source, c.Source, want.tenant)
		if want.id == "" {
			require.ErrorIs(t, err, claim.ErrNoneIdle)
		}
	}
	counts, err := s.Counts(t.Context(), web)
	require.NoError(t, err)
	byVersion := map[int]int{}
	for _, k := range counts {
		byVersion[k.Protocol] += k.N
	}
	require.Equal(t, map[int]int{2: 3, 3: 3, 4: 3, 5: 3}, byVersion)
	agree(t, s)
}

// A server changes nothing of a container that a newer one made, and begins
// and takes over no flow that has one.
func newerIsLeftAlone(t *testing.T, s Store) {
	ctx := t.Context()
	speaks(s, 4)
	ids := map[pool.State]string{pool.Creating: add(t, s, rev), pool.Destroying: add(t, s, rev)}
	shift(t, s, condemn(ids[pool.Destroying]))
	claims := map[claim.State]claim.Claim{}
	for _, state := range []claim.State{claim.Pending, claim.Active, claim.Releasing} {
		idle(t, s, rev, "")
		c, err := s.Reserve(ctx, wish(string(state)))
		require.NoError(t, err)
		if state != claim.Pending {
			c = move(t, s, activate(c.ID))
		}
		if state == claim.Releasing {
			c = move(t, s, releasing(c.ID))
		}
		claims[state] = c
	}
	ids[pool.Idle] = idle(t, s, rev, "")
	before, err := s.Containers(ctx, pool.ContainerFilter{})
	require.NoError(t, err)
	from := last(t, s)

	speaks(s, 3)
	for state, id := range ids {
		for _, m := range []pool.Move{condemn(id), ready(id, ""), bury(id)} {
			m.From = []pool.State{state}
			_, err := s.MoveContainer(ctx, m)
			require.ErrorIs(t, err, runtime.ErrNewer, state)
		}
	}
	give := pool.Condemn("", []pool.State{pool.Claimed}, "test")
	for name, m := range map[string]claim.Move{
		"take a claim over":   {ID: claims[claim.Pending].ID, From: []claim.State{claim.Pending}, To: claim.Pending},
		"fail a claim":        {ID: claims[claim.Pending].ID, From: []claim.State{claim.Pending}, To: claim.Failed, Container: &give},
		"begin a release":     releasing(claims[claim.Active].ID),
		"take a release over": {ID: claims[claim.Releasing].ID, From: []claim.State{claim.Releasing}, To: claim.Releasing},
		"end a release":       release(claims[claim.Releasing].ID),
	} {
		_, err := s.MoveClaim(ctx, m)
		require.ErrorIs(t, err, runtime.ErrNewer, name)
	}
	_, err = s.Reserve(ctx, wish("ann"))
	require.ErrorIs(t, err, claim.ErrNoneIdle)
	held, err := s.Reserve(ctx, wish(string(claim.Active)))
	require.NoError(t, err)
	require.Equal(t, claims[claim.Active].ID, held.ID, "what a tenant holds it still holds")
	move(t, s, claim.Move{ID: held.ID, From: []claim.State{claim.Active}, To: claim.Active}) // it was touched

	after, err := s.Containers(ctx, pool.ContainerFilter{})
	require.NoError(t, err)
	require.Equal(t, before, after, "fences and all")
	require.Equal(t, []activity.Type{activity.ClaimRequested}, types(events(t, s, activity.Filter{}, from)))

	speaks(s, 4)
	shift(t, s, condemn(ids[pool.Idle]))
	move(t, s, releasing(claims[claim.Active].ID))
	agree(t, s)
}
