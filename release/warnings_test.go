package release_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/release"
)

// After a failed pre_release the state is uploaded anyway, and the failure is
// in the response, in the record and in the event.
func TestUploadAfterFailedPreRelease(t *testing.T) {
	for _, policy := range []string{"fail", "continue"} {
		t.Run(policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(syncedWorkload + "hooks: { pre_release: [{ name: flush, command: [box, exit, '3'], on_error: " + policy + " }] }\n")
				c := h.Claim("w", "ada")
				execTestprog(h, c, "write", "/data/note", "kept")
				r := h.Release(c)
				require.Len(t, r.Warnings, 1)
				require.Contains(t, r.Warnings[0], `pre_release hook "flush" exited with code 3`)
				require.Equal(t, r.Warnings, currentClaim(h, c).Warnings)
				var data struct{ Warnings []string }
				require.NoError(t, json.Unmarshal(h.Events(activity.ClaimReleased)[0].Data, &data))
				require.Equal(t, r.Warnings, data.Warnings)
				require.NotNil(t, r.SyncedAt)
				require.Equal(t, "kept", execTestprog(h, h.Claim("w", "ada"), "read", "/data/note"))
			})
		})
	}
}

// A release whose hooks succeed has no warnings.
func TestNoWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		require.Empty(t, h.Release(h.Claim("w", "ada")).Warnings)
		require.NotContains(t, string(h.Events(activity.ClaimReleased)[0].Data), "pre_release hook")
	})
}

// A discard that another server records during the upload applies: no snapshot
// is made current.
func TestDiscardOnPeerDuringUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		c := h.Claim("w", "ada")
		execTestprog(h, c, "write", "/data/note", strings.Repeat("must not be uploaded", 10))
		reached, unblock := h.RT.Block("scan_tree")
		ended := make(chan error, 1)
		go func() {
			_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
			ended <- err
		}()
		<-reached
		_, err := h.DB.UpdateClaim(t.Context(), claim.Transition{
			ID: c.ID, From: []claim.State{claim.Releasing}, Set: func(c *claim.Claim) { c.Discard = true },
		})
		require.NoError(t, err)
		unblock()
		require.NoError(t, <-ended)
		require.Equal(t, claim.Released, currentClaim(h, c).State)
		require.Contains(t, awaitDestroyed(h, c.Container), "discarded")
		list, err := h.Claims.Snapshots(t.Context(), "w", "ada")
		require.NoError(t, err)
		require.Empty(t, list)
	})
}
