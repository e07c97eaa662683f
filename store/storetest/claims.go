package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

// Either both records change or neither does.
func claimTransitions(t *testing.T, s Store) {
	ctx := t.Context()
	id := addIdleContainer(t, s, rev, "")
	c := addActiveClaim(t, s, "ann")
	require.NotNil(t, c.ActiveAt)
	_, err := s.UpdateClaim(ctx, activeTransition(c.ID))
	require.ErrorIs(t, err, pool.ErrConflict)
	_, err = s.UpdateClaim(ctx, activeTransition(newID()))
	require.ErrorIs(t, err, claim.ErrClaimNotFound)

	late := releasingTransition(c.ID)
	late.If = func(now claim.Claim) bool { return now.ID == c.ID && now.State != claim.Active }
	from := lastSeq(t, s)
	_, err = s.UpdateClaim(ctx, late)
	require.ErrorIs(t, err, pool.ErrConflict, "the condition of the transition is not met")
	require.Equal(t, from, lastSeq(t, s))
	c = mustUpdateClaim(t, s, releasingTransition(c.ID))
	wrong := releasedTransition(c.ID)
	wrong.Container.From = []pool.State{pool.Idle}
	from = lastSeq(t, s)
	_, err = s.UpdateClaim(ctx, wrong)
	require.ErrorIs(t, err, pool.ErrConflict)
	kept, err := s.Claim(ctx, c.ID)
	require.NoError(t, err)
	require.Equal(t, c, kept, "the claim did not change without its container")
	require.Equal(t, from, lastSeq(t, s))

	c = mustUpdateClaim(t, s, releasedTransition(c.ID))
	require.Equal(t, claim.Released, c.State)
	require.NotNil(t, c.ReleasedAt)
	require.Empty(t, c.Health, "it no longer holds a container")
	kept, err = s.Claim(ctx, c.ID)
	require.NoError(t, err)
	require.Equal(t, kept, c)
	k, err := s.Container(ctx, id)
	require.NoError(t, err)
	require.Equal(t, []string{"ann", "", string(pool.Idle)}, []string{k.Tenant, k.Claim, string(k.State)},
		"the tenant's data is still in it")
	for _, e := range events(t, s, activity.Filter{}, from) {
		require.Equal(t, []string{web, id, "ann", c.ID}, []string{e.Workload, e.Container, e.Tenant, e.Claim}, e.Type)
	}
	requireLogMatchesRecords(t, s)
}

// What a flow writes into a claim is read back unchanged.
func claimRoundTrip(t *testing.T, s Store) {
	ctx := t.Context()
	addIdleContainer(t, s, rev, "")
	c := addActiveClaim(t, s, "ann")
	require.NotNil(t, c.Hooks)
	require.NotNil(t, c.Timings)
	require.NotNil(t, c.Warnings)
	code, now := 3, time.Now()
	c = mustUpdateClaim(t, s, claim.Transition{
		ID: c.ID, From: []claim.State{claim.Active}, To: claim.Active,
		Set: func(c *claim.Claim) {
			c.Hooks = append(c.Hooks, claim.HookSummary{Run: "r", Hook: "migrate", Attempt: 1, ExitCode: &code, Duration: 1.5})
			c.Timings["healthy"] = 12.25
			c.Warnings = append(c.Warnings, "quote ' and \x00 NUL")
			c.Reason, c.ActiveAt = "because", &now
			c.Tenant, c.Health = "eve", "splendid"
		},
	})
	require.Equal(t, "ann", c.Tenant, "its tenant never changes")
	require.True(t, c.ActiveAt.Equal(now))
	kept, err := s.Claim(ctx, c.ID)
	require.NoError(t, err)
	require.Equal(t, c, kept)
	require.Equal(t, 12.25, kept.Timings["healthy"])

	mustUpdateContainer(t, s, pool.Transition{
		ID: c.Container, From: []pool.State{pool.Claimed}, To: pool.Claimed,
		Set: func(k *pool.Container) { k.Health = pool.Exited },
	})
	kept, err = s.Claim(ctx, c.ID)
	require.NoError(t, err)
	require.Equal(t, string(pool.Exited), kept.Health, "the health of its container")
}

// A claim whose container is tainted continues with another.
func claimReplacesContainer(t *testing.T, s Store) {
	ctx := t.Context()
	bad, good := addIdleContainer(t, s, rev, ""), addIdleContainer(t, s, rev, "")
	r := newReservation("ann")
	c, err := s.Reserve(ctx, r)
	require.NoError(t, err)
	require.Equal(t, bad, c.Container)
	destroy := pool.BeginDestroy("", []pool.State{pool.Claimed}, "unfit")
	c = mustUpdateClaim(t, s, claim.Transition{
		ID: c.ID, From: []claim.State{claim.Pending}, To: claim.Pending, Container: &destroy,
		Set: func(c *claim.Claim) { c.Container, c.Revision, c.Source, c.Endpoint = "", "", "", runtime.Endpoint{} },
	})
	require.Empty(t, c.Container)
	require.Empty(t, destroy.ID, "the caller's transition stays unchanged")
	k, err := s.Container(ctx, bad)
	require.NoError(t, err)
	require.Equal(t, pool.Destroying, k.State)
	c, err = s.Reserve(ctx, r)
	require.NoError(t, err)
	require.Equal(t, good, c.Container)

	// The schema refuses a container that another claim holds.
	addIdleContainer(t, s, rev, "")
	other := addActiveClaim(t, s, "bob")
	_, err = s.UpdateClaim(ctx, claim.Transition{
		ID: c.ID, From: []claim.State{claim.Pending}, To: claim.Pending,
		Set: func(c *claim.Claim) { c.Container = other.Container },
	})
	require.ErrorIs(t, err, pool.ErrInUse)
	requireLogMatchesRecords(t, s)
}

func claimLists(t *testing.T, s Store) {
	ctx := t.Context()
	addIdleContainer(t, s, rev, "")
	addIdleContainer(t, s, rev, "")
	a := addActiveClaim(t, s, "ann")
	b := addActiveClaim(t, s, "bob")
	mustUpdateClaim(t, s, releasingTransition(b.ID))
	b = mustUpdateClaim(t, s, releasedTransition(b.ID))
	waiting := newReservation("joe")
	waiting.EnqueueOnly = true
	_, err := s.Reserve(ctx, waiting)
	require.ErrorIs(t, err, claim.ErrNoIdleContainer)

	for name, c := range map[string]struct {
		f    claim.Filter
		want []string
	}{
		"live":                     {claim.Filter{}, []string{a.ID, waiting.Claim}},
		"every":                    {claim.Filter{States: claim.States()}, []string{a.ID, b.ID, waiting.Claim}},
		"ended":                    {claim.Filter{States: []claim.State{claim.Released, claim.Failed}}, []string{b.ID}},
		"pending":                  {claim.Filter{States: []claim.State{claim.Pending}}, []string{waiting.Claim}},
		"tenant":                   {claim.Filter{Tenant: "ann"}, []string{a.ID}},
		"workload":                 {claim.Filter{Workload: "other"}, nil},
		"container":                {claim.Filter{Container: b.Container, States: claim.States()}, []string{b.ID}},
		"first page":               {claim.Filter{States: claim.States(), Limit: 2}, []string{a.ID, b.ID}},
		"next page":                {claim.Filter{States: claim.States(), Limit: 2, After: b.ID}, []string{waiting.Claim}},
		"newest":                   {claim.Filter{States: claim.States(), Newest: true, Limit: 2}, []string{waiting.Claim, b.ID}},
		"older page":               {claim.Filter{States: claim.States(), Newest: true, Limit: 2, After: b.ID}, []string{a.ID}},
		"live newest":              {claim.Filter{Newest: true}, []string{waiting.Claim, a.ID}},
		"end of id":                {claim.Filter{IDPart: a.ID[28:]}, []string{a.ID}},
		"begin of id":              {claim.Filter{IDPart: a.ID[:30]}, []string{a.ID}},
		"within id":                {claim.Filter{IDPart: a.ID[9:34]}, nil},
		"id of one that has ended": {claim.Filter{IDPart: b.ID[28:]}, nil},
		"id that is longer":        {claim.Filter{IDPart: "0" + a.ID}, nil},
		"id of another tenant":     {claim.Filter{IDPart: a.ID[28:], Scope: &activity.Scope{{Tenant: activity.Exactly("bob"), Workload: activity.Anything}}}, nil},
	} {
		all, err := s.Claims(ctx, c.f)
		require.NoError(t, err, name)
		var ids []string
		for _, k := range all {
			ids = append(ids, k.ID)
		}
		require.Equal(t, c.want, ids, name)
	}
}
