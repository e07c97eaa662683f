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

// setProtocol makes the store that of a server of a protocol version, which
// also supports the previous one.
func setProtocol(s Store, version int) {
	s.SetProtocols(runtime.Protocols{Oldest: version - 1, Current: version})
}

// A claim gets a container whose protocol its server supports. A container of
// an older version is outdated: it is used only if it was never claimed, and
// only where there is no current one.
func reserveProtocols(t *testing.T, s Store) {
	made := map[int]map[string]string{} // ids by version and tenant
	for version := 2; version <= 5; version++ {
		setProtocol(s, version)
		made[version] = map[string]string{}
		for _, tenant := range []string{"", "ann", "bob"} {
			made[version][tenant] = addIdleContainer(t, s, rev, tenant)
		}
		k, err := s.Container(t.Context(), made[version][""])
		require.NoError(t, err)
		require.Equal(t, version, k.Protocol)
	}
	setProtocol(s, 4)
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
		r := newReservation(want.tenant)
		r.Reuse = workload.ReuseWipe
		c, err := s.Reserve(t.Context(), r)
		require.Equal(t, want.id, c.Container, want.tenant)
		require.Equal(t, want.source, c.Source, want.tenant)
		if want.id == "" {
			require.ErrorIs(t, err, claim.ErrNoIdleContainer)
		}
	}
	counts, err := s.Counts(t.Context(), web)
	require.NoError(t, err)
	byVersion := map[int]int{}
	for _, k := range counts {
		byVersion[k.Protocol] += k.N
	}
	require.Equal(t, map[int]int{2: 3, 3: 3, 4: 3, 5: 3}, byVersion)
	requireLogMatchesRecords(t, s)
}

// A server does not change a container that a newer one created, and neither
// begins nor takes over a flow that has one.
func newerProtocolUnchanged(t *testing.T, s Store) {
	ctx := t.Context()
	setProtocol(s, 4)
	ids := map[pool.State]string{pool.Creating: addContainer(t, s, rev), pool.Destroying: addContainer(t, s, rev)}
	mustUpdateContainer(t, s, destroyingTransition(ids[pool.Destroying]))
	claims := map[claim.State]claim.Claim{}
	for _, state := range []claim.State{claim.Pending, claim.Active, claim.Releasing} {
		addIdleContainer(t, s, rev, "")
		c, err := s.Reserve(ctx, newReservation(string(state)))
		require.NoError(t, err)
		if state != claim.Pending {
			c = mustUpdateClaim(t, s, activeTransition(c.ID))
		}
		if state == claim.Releasing {
			c = mustUpdateClaim(t, s, releasingTransition(c.ID))
		}
		claims[state] = c
	}
	ids[pool.Idle] = addIdleContainer(t, s, rev, "")
	before, err := s.Containers(ctx, pool.ContainerFilter{})
	require.NoError(t, err)
	from := lastSeq(t, s)

	setProtocol(s, 3)
	for state, id := range ids {
		for _, m := range []pool.Transition{destroyingTransition(id), idleTransition(id, ""), destroyedTransition(id)} {
			m.From = []pool.State{state}
			_, err := s.UpdateContainer(ctx, m)
			require.ErrorIs(t, err, runtime.ErrNewer, state)
		}
	}
	give := pool.BeginDestroy("", []pool.State{pool.Claimed}, "test")
	for name, m := range map[string]claim.Transition{
		"take a claim over":   {ID: claims[claim.Pending].ID, From: []claim.State{claim.Pending}, To: claim.Pending},
		"fail a claim":        {ID: claims[claim.Pending].ID, From: []claim.State{claim.Pending}, To: claim.Failed, Container: &give},
		"begin a release":     releasingTransition(claims[claim.Active].ID),
		"take a release over": {ID: claims[claim.Releasing].ID, From: []claim.State{claim.Releasing}, To: claim.Releasing},
		"end a release":       releasedTransition(claims[claim.Releasing].ID),
	} {
		_, err := s.UpdateClaim(ctx, m)
		require.ErrorIs(t, err, runtime.ErrNewer, name)
	}
	_, err = s.Reserve(ctx, newReservation("ann"))
	require.ErrorIs(t, err, claim.ErrNoIdleContainer)
	held, err := s.Reserve(ctx, newReservation(string(claim.Active)))
	require.NoError(t, err)
	require.Equal(t, claims[claim.Active].ID, held.ID, "the tenant keeps its claim")
	mustUpdateClaim(t, s, claim.Transition{ID: held.ID, From: []claim.State{claim.Active}, To: claim.Active}) // a touch

	after, err := s.Containers(ctx, pool.ContainerFilter{})
	require.NoError(t, err)
	require.Equal(t, before, after, "with their fences")
	require.Equal(t, []activity.Type{activity.ClaimRequested}, eventTypes(events(t, s, activity.Filter{}, from)))

	setProtocol(s, 4)
	mustUpdateContainer(t, s, destroyingTransition(ids[pool.Idle]))
	mustUpdateClaim(t, s, releasingTransition(claims[claim.Active].ID))
	requireLogMatchesRecords(t, s)
}
