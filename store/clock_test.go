package store_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/membership"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/storetest"
)

// A clock that was set back, here by decades, does not change the order of
// events, the order of a tenant's claims, or a server's right to lead.
func TestClockSetBackKeepsOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hostler.db")
	db := openURL(t, path)
	dead := register(t, db)
	_, err := db.Campaign(t.Context(), time.Now())
	require.NoError(t, err)
	before := []claim.Claim{addEndedClaim(t, db, "ada"), addEndedClaim(t, db, "ada"), addEndedClaim(t, db, "bob")}
	require.Greater(t, before[1].Fence, before[0].Fence)
	last, err := db.LastSeq(t.Context())
	require.NoError(t, err)
	require.NoError(t, db.Close())

	synctest.Test(t, func(t *testing.T) { // within, it is the year 2000
		require.True(t, time.Now().Before(before[0].CreatedAt))
		db := openDB(t, path)
		register(t, db)
		expired, err := db.Expired(t.Context())
		require.NoError(t, err)
		require.Equal(t, []membership.Replica{dead}, expired)
		term, err := db.Campaign(t.Context(), time.Now())
		require.NoError(t, err)
		require.EqualValues(t, 2, term)

		first, second := addEndedClaim(t, db, "ada"), addEndedClaim(t, db, "ada")
		require.Greater(t, first.Fence, before[1].Fence)
		require.Greater(t, second.Fence, first.Fence)
		kept, err := db.Claim(t.Context(), second.ID)
		require.NoError(t, err)
		require.Equal(t, second.Fence, kept.Fence)
		require.Less(t, addEndedClaim(t, db, "cyd").Fence, before[0].Fence, "only the tenant's own claims count")

		p, err := db.Events(t.Context(), activity.Filter{}, last, 0)
		require.NoError(t, err)
		require.NotEmpty(t, p.Items)
		require.NoError(t, storetest.Follow(t.Context(), db, p.Next))

		// Only records that are old by the current clock are removed.
		pruned, err := db.Prune(t.Context(), store.Retention{Before: time.Now().Add(-time.Hour)})
		require.NoError(t, err)
		require.Zero(t, pruned)
	})
}

// addEndedClaim adds a claim that ended without a container.
func addEndedClaim(t *testing.T, db *store.DB, tenant string) claim.Claim {
	t.Helper()
	r := reservation(tenant)
	_, err := db.Reserve(t.Context(), r)
	require.ErrorIs(t, err, claim.ErrNoIdleContainer)
	c, err := db.UpdateClaim(t.Context(), claim.Transition{
		ID: r.Claim, From: []claim.State{claim.Pending}, To: claim.Failed,
		Events: []activity.Event{{Type: activity.ClaimFailed, Message: "nothing was idle"}},
	})
	require.NoError(t, err)
	_, err = db.Reserve(t.Context(), r)
	require.ErrorIs(t, err, pool.ErrConflict, "its id was already used")
	return c
}
