package release_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// A discard that another server records applies also while the last files are stored,
// when the container is not read any more: no snapshot is made current, and nothing of
// the upload stays.
func TestDiscardOnPeerBeforeCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		c := h.Claim("w", "ada")
		execTestprog(h, c, "write", "/data/note", "must not be uploaded")
		discarded := false
		h.Bucket.Before(func(call snapshottest.Call) error {
			if discarded || call.Op != "put" || !strings.Contains(call.Key, "/packs/") {
				return nil
			}
			discarded = true
			_, err := h.DB.UpdateClaim(t.Context(), claim.Transition{
				ID: c.ID, From: []claim.State{claim.Releasing}, Set: func(c *claim.Claim) { c.Discard = true },
			})
			return err
		})
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.NoError(t, err)
		require.True(t, discarded)
		require.Equal(t, claim.Released, currentClaim(h, c).State)
		require.Contains(t, awaitDestroyed(h, c.Container), "discarded")
		require.Empty(t, slices.Collect(maps.Keys(h.Bucket.Objects())))
	})
}
