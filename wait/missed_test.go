package wait_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
)

// A server that has missed the end of a claim ends the hooks of its waits when it
// reads the records again, and no others.
func TestMissedEndOfClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, file)
		s := r.start()
		s.stopEvents()
		ended := make(chan error, 1)
		r.fired.during = func(ctx context.Context, _ hooks.Point) {
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Minute):
			}
			ended <- context.Cause(ctx)
		}
		_, _, err := s.Start(t.Context(), r.claim.ID, request("", time.Minute))
		require.NoError(t, err)
		sleep(time.Minute) // the waits are listed in the meantime
		require.Empty(t, ended)
		_, err = r.DB.UpdateClaim(t.Context(), claim.BeginRelease(r.claim.ID, "test", false))
		require.NoError(t, err)
		require.NoError(t, s.EventHandlers().Resync(t.Context()))
		sleep(time.Second)
		require.Len(t, ended, 1)
		require.ErrorContains(t, <-ended, "the claim of the wait has ended")
	})
}
