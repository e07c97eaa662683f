package release_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/runtime/fake"
)

// The event of a release has the activity that the tenant's program reported last,
// also while the release was in progress.
func TestReleaseHasLastActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		var id string
		h.RT.AddProgram("report", func(ctx context.Context, _ *fake.Proc) int {
			_, err := h.DB.UpdateClaim(ctx, claim.Note(id, func(c *claim.Claim) { c.Activity = "completed" }, claim.Releasing))
			if err != nil {
				return 1
			}
			return 0
		})
		h.Apply("id: w\nimage: x\nhooks: {pre_release: [{command: [report]}]}\n")
		c := h.Claim("w", "ada")
		id = c.ID
		h.Release(c)
		released := h.Events(activity.ClaimReleased)
		require.Contains(t, string(released[0].Data), `"activity":"completed"`)
		require.Contains(t, string(released[0].Data), `"reason":`)
	})
}
