package release_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/release"
)

// A pre_release that fails costs the tenant nothing that it has written: its
// state is kept all the same, and the failure is told in the answer, in the
// record and in the event.
func TestStateAfterAFailedPreRelease(t *testing.T) {
	for _, policy := range []string{"fail", "continue"} {
		t.Run(policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := flowtest.New(t)
				y.Apply(kept + "hooks: { pre_release: [{ name: flush, command: [box, exit, '3'], on_error: " + policy + " }] }\n")
				c := y.Claim("w", "ada")
				exec(y, c, "write", "/data/note", "kept")
				r := y.Release(c)
				require.Len(t, r.Warnings, 1)
				require.Contains(t, r.Warnings[0], `pre_release hook "flush" exited with code 3`)
				require.Equal(t, r.Warnings, now(y, c).Warnings)
				var told struct{ Warnings []string }
				require.NoError(t, json.Unmarshal(y.Events(activity.ClaimReleased)[0].Data, &told))
				require.Equal(t, r.Warnings, told.Warnings)
				require.NotNil(t, r.SyncedAt)
				require.Equal(t, "kept", exec(y, y.Claim("w", "ada"), "read", "/data/note"))
			})
		})
	}
}

// A release whose hooks go well warns of nothing.
func TestNoWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(file)
		require.Empty(t, y.Release(y.Claim("w", "ada")).Warnings)
		require.NotContains(t, string(y.Events(activity.ClaimReleased)[0].Data), "pre_release hook")
	})
}

// A wish that another server has recorded while this one reads the state counts
// when it has read it all: no snapshot is made current.
func TestDiscardOnAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(kept)
		c := y.Claim("w", "ada")
		exec(y, c, "write", "/data/note", strings.Repeat("nobody shall read this", 10))
		reached, goOn := y.RT.Block("get")
		ended := make(chan error, 1)
		go func() {
			_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
			ended <- err
		}()
		<-reached
		_, err := y.DB.MoveClaim(t.Context(), claim.Move{
			ID: c.ID, From: []claim.State{claim.Releasing}, Set: func(c *claim.Claim) { c.Discard = true },
		})
		require.NoError(t, err)
		goOn()
		require.NoError(t, <-ended)
		require.Equal(t, claim.Released, now(y, c).State)
		require.Contains(t, gone(y, c.Container), "discarded")
		list, err := y.Claims.Snapshots(t.Context(), "w", "ada")
		require.NoError(t, err)
		require.Empty(t, list)
	})
}
