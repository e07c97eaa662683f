package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

// Both records name each other, and the log tells of both.
func reserveTakes(t *testing.T, s Store) {
	ctx := t.Context()
	id := idle(t, s, rev, "")
	from := last(t, s)
	r := wish("ann")
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
	require.Equal(t, []activity.Type{activity.ClaimRequested, activity.ContainerClaimed}, types(all))
	require.Equal(t, []string{web, id, "ann"}, []string{all[1].Workload, all[1].Container, all[1].Tenant})
	agree(t, s)
}

// The order of preference, and within one kind the longest idle.
func reservePrefers(t *testing.T, s Store) {
	outdated := idle(t, s, oldRev, "")
	idle(t, s, oldRev, "ann") // another revision's files: never reused
	bobs, eves := idle(t, s, rev, "bob"), idle(t, s, rev, "eve")
	anns := idle(t, s, rev, "ann")
	fresh, fresher := idle(t, s, rev, ""), idle(t, s, rev, "")

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
		{"bob", workload.ReuseWipe, anns, claim.Recycled},
		{"lee", workload.ReuseWipe, "", ""},
	} {
		r := wish(step.tenant)
		r.Reuse = step.reuse
		c, err := s.Reserve(t.Context(), r)
		require.Equal(t, step.want, c.Container, "%s with %s", step.tenant, step.reuse)
		require.Equal(t, step.source, c.Source)
		if step.want != "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, claim.ErrNoneIdle)
		c = move(t, s, claim.Move{ID: c.ID, From: []claim.State{claim.Pending}, To: claim.Failed,
			Events: []activity.Event{{Type: activity.ClaimFailed, Message: "gave up"}}})
		require.NotNil(t, c.ReleasedAt)
	}
	agree(t, s)
}

func reserveHealthy(t *testing.T, s Store) {
	id := idle(t, s, rev, "")
	for _, health := range []pool.Health{pool.Unhealthy, pool.Dead, "", pool.Healthy} {
		shift(t, s, pool.Move{
			ID: id, From: []pool.State{pool.Idle}, To: pool.Idle,
			Set: func(c *pool.Container) { c.Health = health },
		})
		r := wish("ann")
		c, err := s.Reserve(t.Context(), r)
		if health == pool.Unhealthy || health == pool.Dead {
			require.ErrorIs(t, err, claim.ErrNoneIdle, health)
			move(t, s, claim.Move{ID: c.ID, From: []claim.State{claim.Pending}, To: claim.Failed})
			continue
		}
		require.NoError(t, err, health)
		require.Equal(t, id, c.Container)
		move(t, s, activate(c.ID))
		move(t, s, releasing(c.ID))
		move(t, s, release(c.ID))
	}
}

// Reserving twice for one claim is reserving once, whenever the second comes.
func reserveAgain(t *testing.T, s Store) {
	ctx := t.Context()
	idle(t, s, rev, "")
	idle(t, s, rev, "")
	r := wish("ann")
	first, err := s.Reserve(ctx, r)
	require.NoError(t, err)
	from := last(t, s)
	again, err := s.Reserve(ctx, r)
	require.NoError(t, err)
	require.Equal(t, first, again)
	active := move(t, s, activate(r.Claim))
	again, err = s.Reserve(ctx, r)
	require.NoError(t, err)
	require.Equal(t, active, again)
	require.Len(t, events(t, s, activity.Filter{}, from), 1, "only that it is active")

	move(t, s, releasing(r.Claim))
	move(t, s, release(r.Claim))
	_, err = s.Reserve(ctx, r)
	require.ErrorIs(t, err, pool.ErrMoved, "an ended claim does not live again")
	agree(t, s)
}

// One live claim of a tenant on a workload; on others it is free.
func reserveHeld(t *testing.T, s Store) {
	ctx := t.Context()
	idle(t, s, rev, "")
	idle(t, s, rev, "")
	held := claimed(t, s, "ann")
	from := last(t, s)
	r := wish("ann")
	got, err := s.Reserve(ctx, r)
	require.NoError(t, err)
	require.Equal(t, held, got)
	_, err = s.Claim(ctx, r.Claim)
	require.ErrorIs(t, err, claim.ErrNoClaim)
	require.Equal(t, from, last(t, s))

	move(t, s, releasing(held.ID))
	got, err = s.Reserve(ctx, r)
	require.NoError(t, err)
	require.Equal(t, held.ID, got.ID, "one that is being released is live")

	r.Workload = "other"
	_, err = s.Reserve(ctx, r)
	require.ErrorIs(t, err, claim.ErrNoneIdle)
}

// A claim that finds nothing is recorded once, and served when it asks again.
func reserveWaits(t *testing.T, s Store) {
	ctx := t.Context()
	r := wish("ann")
	c, err := s.Reserve(ctx, r)
	require.ErrorIs(t, err, claim.ErrNoneIdle)
	require.Equal(t, []string{r.Claim, "", string(claim.Pending)}, []string{c.ID, c.Container, string(c.State)})
	kept, err := s.Claim(ctx, r.Claim)
	require.NoError(t, err)
	require.Equal(t, kept, c)

	id := idle(t, s, rev, "")
	r.Queue = true
	_, err = s.Reserve(ctx, r)
	require.ErrorIs(t, err, claim.ErrNoneIdle, "others are before it")
	other := wish("bob")
	other.Queue = true
	_, err = s.Reserve(ctx, other)
	require.ErrorIs(t, err, claim.ErrNoneIdle)
	r.Queue = false
	c, err = s.Reserve(ctx, r)
	require.NoError(t, err)
	require.Equal(t, id, c.Container)
	require.Equal(t, []activity.Type{activity.ClaimRequested, activity.ContainerClaimed},
		types(events(t, s, activity.Filter{Claim: r.Claim}, 0)))
	agree(t, s)
}
