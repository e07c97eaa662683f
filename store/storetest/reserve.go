package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

// Both records refer to each other, and the log has events of both.
func reserveLinksRecords(t *testing.T, s Store) {
	ctx := t.Context()
	id := addIdleContainer(t, s, rev, "")
	from := lastSeq(t, s)
	r := newReservation("ann")
	c, err := s.Reserve(ctx, r)
	require.NoError(t, err)
	require.Equal(t, claim.Pending, c.State)
	require.Equal(t, []string{r.Claim, web, "ann", id, rev}, []string{c.ID, c.Workload, c.Tenant, c.Container, c.Revision})
	require.Equal(t, claim.Fresh, c.Source)
	require.Equal(t, endpoint, c.Endpoint)
	require.Equal(t, string(pool.Healthy), c.Health)
	kept, err := s.Claim(ctx, r.Claim)
	require.NoError(t, err)
	require.Equal(t, kept, c)
	k, err := s.Container(ctx, id)
	require.NoError(t, err)
	require.Equal(t, pool.Claimed, k.State)
	require.Equal(t, []string{"ann", r.Claim}, []string{k.Tenant, k.Claim})

	all := events(t, s, activity.Filter{Claim: r.Claim}, from)
	require.Equal(t, []activity.Type{activity.ClaimRequested, activity.ContainerClaimed}, eventTypes(all))
	require.Equal(t, []string{web, id, "ann"}, []string{all[1].Workload, all[1].Container, all[1].Tenant})
	requireLogMatchesRecords(t, s)
}

// Containers are reserved in the order of preference, and within one kind the
// longest idle first, but of the tenant's own the one that it used last.
func reservePrefers(t *testing.T, s Store) {
	outdated := addIdleContainer(t, s, oldRev, "")
	addIdleContainer(t, s, oldRev, "ann") // another revision's files: never reused
	bobs, stale, eves := addIdleContainer(t, s, rev, "bob"), addIdleContainer(t, s, rev, "eve"), addIdleContainer(t, s, rev, "eve")
	anns := addIdleContainer(t, s, rev, "ann")
	fresh, fresher := addIdleContainer(t, s, rev, ""), addIdleContainer(t, s, rev, "")

	for _, step := range []struct {
		tenant string
		reuse  workload.Reuse
		want   string
		source claim.Source
	}{
		{"ann", workload.ReuseNever, fresh, claim.Fresh},
		{"eve", workload.ReuseSameTenant, eves, claim.Affinity},
		{"joe", workload.ReuseWipe, fresher, claim.Fresh},
		{"zoe", workload.ReuseSameTenant, outdated, claim.Fresh},
		{"kim", workload.ReuseSameTenant, "", ""},
		{"kim", workload.ReuseWipe, bobs, claim.Recycled},
		{"bob", workload.ReuseWipe, stale, claim.Recycled},
		{"max", workload.ReuseWipe, anns, claim.Recycled},
		{"lee", workload.ReuseWipe, "", ""},
	} {
		r := newReservation(step.tenant)
		r.Reuse = step.reuse
		c, err := s.Reserve(t.Context(), r)
		require.Equal(t, step.want, c.Container, "%s with %s", step.tenant, step.reuse)
		require.Equal(t, step.source, c.Source)
		if step.want != "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, claim.ErrNoIdleContainer)
		c = mustUpdateClaim(t, s, claim.Transition{ID: c.ID, From: []claim.State{claim.Pending}, To: claim.Failed,
			Events: []activity.Event{{Type: activity.ClaimFailed, Message: "gave up"}}})
		require.NotNil(t, c.ReleasedAt)
	}
	requireLogMatchesRecords(t, s)
}

func reserveHealthy(t *testing.T, s Store) {
	id := addIdleContainer(t, s, rev, "")
	for _, health := range []pool.Health{pool.Unhealthy, pool.Exited, "", pool.Healthy} {
		mustUpdateContainer(t, s, pool.Transition{
			ID: id, From: []pool.State{pool.Idle}, To: pool.Idle,
			Set: func(c *pool.Container) { c.Health = health },
		})
		r := newReservation("ann")
		c, err := s.Reserve(t.Context(), r)
		if health == pool.Unhealthy || health == pool.Exited {
			require.ErrorIs(t, err, claim.ErrNoIdleContainer, health)
			mustUpdateClaim(t, s, claim.Transition{ID: c.ID, From: []claim.State{claim.Pending}, To: claim.Failed})
			continue
		}
		require.NoError(t, err, health)
		require.Equal(t, id, c.Container)
		mustUpdateClaim(t, s, activeTransition(c.ID))
		mustUpdateClaim(t, s, releasingTransition(c.ID))
		mustUpdateClaim(t, s, releasedTransition(c.ID))
	}
}

// A second reservation for a claim changes nothing, whenever it is made.
func reserveAgain(t *testing.T, s Store) {
	ctx := t.Context()
	addIdleContainer(t, s, rev, "")
	addIdleContainer(t, s, rev, "")
	r := newReservation("ann")
	first, err := s.Reserve(ctx, r)
	require.NoError(t, err)
	from := lastSeq(t, s)
	again, err := s.Reserve(ctx, r)
	require.NoError(t, err)
	require.Equal(t, first, again)
	active := mustUpdateClaim(t, s, activeTransition(r.Claim))
	again, err = s.Reserve(ctx, r)
	require.NoError(t, err)
	require.Equal(t, active, again)
	require.Len(t, events(t, s, activity.Filter{}, from), 1, "only the event that it is active")

	mustUpdateClaim(t, s, releasingTransition(r.Claim))
	mustUpdateClaim(t, s, releasedTransition(r.Claim))
	_, err = s.Reserve(ctx, r)
	require.ErrorIs(t, err, pool.ErrConflict, "an ended claim stays ended")
	requireLogMatchesRecords(t, s)
}

// A tenant has one live claim on a workload, and may have others on other
// workloads.
func reserveOneLiveClaim(t *testing.T, s Store) {
	ctx := t.Context()
	addIdleContainer(t, s, rev, "")
	addIdleContainer(t, s, rev, "")
	held := addActiveClaim(t, s, "ann")
	from := lastSeq(t, s)
	r := newReservation("ann")
	got, err := s.Reserve(ctx, r)
	require.NoError(t, err)
	require.Equal(t, held, got)
	_, err = s.Claim(ctx, r.Claim)
	require.ErrorIs(t, err, claim.ErrClaimNotFound)
	require.Equal(t, from, lastSeq(t, s))

	mustUpdateClaim(t, s, releasingTransition(held.ID))
	got, err = s.Reserve(ctx, r)
	require.NoError(t, err)
	require.Equal(t, held.ID, got.ID, "one that is being released is live")

	r.Workload = "other"
	_, err = s.Reserve(ctx, r)
	require.ErrorIs(t, err, claim.ErrNoIdleContainer)
}

// A claim that finds no container is recorded once, and gets one when it
// retries.
func reserveWaits(t *testing.T, s Store) {
	ctx := t.Context()
	r := newReservation("ann")
	c, err := s.Reserve(ctx, r)
	require.ErrorIs(t, err, claim.ErrNoIdleContainer)
	require.Equal(t, []string{r.Claim, "", string(claim.Pending)}, []string{c.ID, c.Container, string(c.State)})
	kept, err := s.Claim(ctx, r.Claim)
	require.NoError(t, err)
	require.Equal(t, kept, c)

	id := addIdleContainer(t, s, rev, "")
	r.EnqueueOnly = true
	_, err = s.Reserve(ctx, r)
	require.ErrorIs(t, err, claim.ErrNoIdleContainer, "others are before it")
	other := newReservation("bob")
	other.EnqueueOnly = true
	_, err = s.Reserve(ctx, other)
	require.ErrorIs(t, err, claim.ErrNoIdleContainer)
	r.EnqueueOnly, r.OwnOnly = false, true
	_, err = s.Reserve(ctx, r)
	require.ErrorIs(t, err, claim.ErrNoIdleContainer, "it is not her own")
	own := newReservation("eve")
	own.OwnOnly, own.Reuse = true, workload.ReuseSameTenant
	eves := addIdleContainer(t, s, rev, "eve")
	got, err := s.Reserve(ctx, own)
	require.NoError(t, err)
	require.Equal(t, eves, got.Container)
	r.OwnOnly = false
	c, err = s.Reserve(ctx, r)
	require.NoError(t, err)
	require.Equal(t, id, c.Container)
	require.Equal(t, []activity.Type{activity.ClaimRequested, activity.ContainerClaimed},
		eventTypes(events(t, s, activity.Filter{Claim: r.Claim}, 0)))
	requireLogMatchesRecords(t, s)
}
