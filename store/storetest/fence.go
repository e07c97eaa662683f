package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
)

// Each flow that becomes responsible for a container has a greater fence than
// all before it, and gets it from the change that made it responsible.
func fenceGrows(t *testing.T, s Store) {
	ctx := t.Context()
	id := addContainer(t, s, rev)
	k, err := s.Container(ctx, id)
	require.NoError(t, err)
	require.EqualValues(t, pool.FirstFence, k.Fence, "the flow that creates it")
	before := k.Fence
	grows := func(what string, fence int64) {
		t.Helper()
		require.Greater(t, fence, before, what)
		k, err := s.Container(ctx, id)
		require.NoError(t, err)
		require.Equal(t, fence, k.Fence, "%s: the fence of the record", what)
		before = fence
	}
	grows("idle", mustUpdateContainer(t, s, idleTransition(id, "")).Fence)

	c, err := s.Reserve(ctx, newReservation("ann"))
	require.NoError(t, err)
	grows("reserved", c.ContainerFence)
	read, err := s.Claim(ctx, c.ID)
	require.NoError(t, err)
	require.Equal(t, c.ContainerFence, read.ContainerFence, "as read back")
	c = mustUpdateClaim(t, s, claim.Transition{ID: c.ID, From: []claim.State{claim.Pending}, To: claim.Pending})
	grows("a claim in the making is taken over", c.ContainerFence)
	c = mustUpdateClaim(t, s, claim.Transition{ID: c.ID, From: []claim.State{claim.Pending}})
	require.Equal(t, before, c.ContainerFence, "a note changes nothing")
	mustUpdateContainer(t, s, pool.Transition{ID: id, From: []pool.State{pool.Claimed}, To: pool.Claimed,
		Set: func(c *pool.Container) { c.Health, c.Fence = pool.Healthy, 1 }})
	c = mustUpdateClaim(t, s, activeTransition(c.ID))
	require.Equal(t, before, c.ContainerFence, "the same flow has ended")

	c = mustUpdateClaim(t, s, releasingTransition(c.ID))
	grows("a release", c.ContainerFence)
	c = mustUpdateClaim(t, s, claim.Transition{ID: c.ID, From: []claim.State{claim.Releasing}, To: claim.Releasing})
	grows("a release is taken over", c.ContainerFence)
	mustUpdateClaim(t, s, releasedTransition(c.ID))
	k, err = s.Container(ctx, id)
	require.NoError(t, err)
	grows("idle again", k.Fence)
	grows("destroying", mustUpdateContainer(t, s, destroyingTransition(id)).Fence)
}
