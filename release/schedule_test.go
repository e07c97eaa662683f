package release_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
)

// A periodic upload that fails is tried again at the next interval.
func TestFailedPeriodicUploadWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(syncedWorkload, "{ type: file } }", "{ type: file }, policy: { interval: 2m } }"))
		h.Claim("w", "ada")
		h.RT.Break("get", runtime.ErrUnavailable)
		startLoops(t, h)
		<-time.After(20 * time.Minute)
		require.InDelta(t, 10, len(h.Events(activity.SyncFailed)), 1)
	})
}

// An interrupted release is resumed soon, and not only when the claims are listed
// next.
func TestReleaseIsRetriedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "reuse: wipe", "reuse: same_tenant"))
		startLoops(t, h)
		c := h.Claim("w", "ada")
		h.RT.BreakOnce("restart", runtime.ErrUnavailable)
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		<-time.After(2 * time.Second)
		require.Equal(t, claim.Released, currentClaim(h, c).State)
	})
}
