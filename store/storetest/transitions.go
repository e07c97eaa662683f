package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
)

// A change of state that the flows do not have is refused, and changes nothing.
func illegalTransitions(t *testing.T, s Store) {
	ctx := t.Context()
	paths := map[claim.State][]claim.Transition{
		claim.Pending: {}, claim.Active: {activeTransition("")}, claim.Failed: {claim.Fail("", "test")},
		claim.Releasing:     {activeTransition(""), releasingTransition("")},
		claim.ReleaseFailed: {activeTransition(""), releasingTransition(""), claim.Retain("", "test", activity.ClaimReleaseFailedData{})},
		claim.Released:      {activeTransition(""), releasingTransition(""), releasedTransition("")},
	}
	for _, from := range claim.States() {
		addIdleContainer(t, s, rev, "")
		c, err := s.Reserve(ctx, newReservation(string(from)))
		require.NoError(t, err)
		for _, m := range paths[from] {
			m.ID = c.ID
			c = mustUpdateClaim(t, s, m)
		}
		require.Equal(t, from, c.State)
		for _, to := range claim.States() {
			if from.CanBecome(to) {
				continue
			}
			_, err := s.UpdateClaim(ctx, claim.Transition{ID: c.ID, From: []claim.State{from}, To: to})
			require.Error(t, err, "%s to %s", from, to)
			require.NotErrorIs(t, err, pool.ErrConflict)
			after, err := s.Claim(ctx, c.ID)
			require.NoError(t, err)
			require.Equal(t, from, after.State)
		}
	}
	all, err := s.Containers(ctx, pool.ContainerFilter{States: pool.States()})
	require.NoError(t, err)
	created := addContainer(t, s, rev)
	destroyed := addContainer(t, s, rev)
	mustUpdateContainer(t, s, destroyingTransition(destroyed))
	mustUpdateContainer(t, s, destroyedTransition(destroyed))
	for _, id := range []string{created, destroyed, all[0].ID, all[len(all)-1].ID} {
		c, err := s.Container(ctx, id)
		require.NoError(t, err)
		for _, to := range pool.States() {
			if c.State.CanBecome(to) {
				continue
			}
			_, err := s.UpdateContainer(ctx, pool.Transition{ID: id, From: []pool.State{c.State}, To: to})
			require.Error(t, err, "%s to %s", c.State, to)
			after, err := s.Container(ctx, id)
			require.NoError(t, err)
			require.Equal(t, c, after)
		}
	}
	requireLogMatchesRecords(t, s)
}
