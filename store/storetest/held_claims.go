package storetest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
)

// HeldClaims are the methods about the sessions of active claims.
type HeldClaims interface {
	HeldClaims(ctx context.Context) ([]claim.Held, error)
	AdoptClaims(ctx context.Context, replica string) (int64, error)
}

// heldClaims tests that exactly the active claims are held, with the fence of
// their containers.
func heldClaims(t *testing.T, s Store) {
	ctx := t.Context()
	held := func() []claim.Held {
		all, err := s.HeldClaims(ctx)
		require.NoError(t, err)
		return all
	}
	addIdleContainer(t, s, rev, "")
	c, err := s.Reserve(ctx, newReservation("ann"))
	require.NoError(t, err)
	require.Empty(t, held(), "it is pending")
	c, err = s.UpdateClaim(ctx, activeTransition(c.ID))
	require.NoError(t, err)
	k, err := s.Container(ctx, c.Container)
	require.NoError(t, err)
	want := []claim.Held{{Claim: c.ID, Container: k.ID, Fence: k.Fence}}
	require.Equal(t, want, held())
	_, err = s.UpdateClaim(ctx, claim.Note(c.ID, func(*claim.Claim) {}, claim.Active))
	require.NoError(t, err)
	require.Equal(t, want, held(), "a note")
	_, err = s.AdoptClaims(ctx, "")
	require.NoError(t, err)
	require.Equal(t, want, held())
	_, err = s.UpdateClaim(ctx, releasingTransition(c.ID))
	require.NoError(t, err)
	require.Empty(t, held(), "it is releasing")
}

// ClaimOwners has two servers on one database hold claims, until the first one
// leaves.
func ClaimOwners(t *testing.T, first, second Store, leave func()) {
	ctx := t.Context()
	claims := map[string]Store{}
	for tenant, s := range map[string]Store{"ann": first, "bob": second} {
		addIdleContainer(t, s, rev, "")
		c, err := s.Reserve(ctx, newReservation(tenant))
		require.NoError(t, err)
		_, err = s.UpdateClaim(ctx, activeTransition(c.ID))
		require.NoError(t, err)
		claims[c.ID] = s
	}
	requireHeld := func(s Store, n int, what string) {
		t.Helper()
		all, err := s.HeldClaims(ctx)
		require.NoError(t, err)
		require.Len(t, all, n, what)
	}
	requireHeld(first, 1, "its own")
	requireHeld(second, 1, "its own")
	for id, s := range claims {
		other := first
		if s == first {
			other = second
		}
		_, err := other.UpdateClaim(ctx, claim.Note(id, func(*claim.Claim) {}, claim.Active))
		require.NoError(t, err)
	}
	requireHeld(first, 1, "a note of another server changes no owner")
	n, err := second.AdoptClaims(ctx, "")
	require.NoError(t, err)
	require.Zero(t, n, "the other server uses the database")
	leave()
	n, err = second.AdoptClaims(ctx, "")
	require.NoError(t, err)
	require.EqualValues(t, 1, n, "it has left")
	requireHeld(second, 2, "it was adopted")
	n, err = second.AdoptClaims(ctx, "")
	require.NoError(t, err)
	require.Zero(t, n, "its own are no one else's")
}
