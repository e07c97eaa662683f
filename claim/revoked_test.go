package claim_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
)

// A caller whose credential is revoked while it waits gets no container, and does not
// end the request of another credential of the same tenant.
func TestJoinersSurviveRevokedCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(smallWorkload(1))
		held := h.Claim("w", "held")
		ctx, revoke := context.WithCancelCause(t.Context())
		var revoked, other errgroup.Group
		var c claim.Claim
		request := claim.Request{Workload: "w", Tenant: "ada", Wait: time.Hour}
		revoked.Go(func() error {
			_, _, err := h.Claims.Claim(ctx, request)
			return err
		})
		synctest.Wait()
		other.Go(func() (err error) {
			c, _, err = h.Claims.Claim(t.Context(), request)
			return err
		})
		synctest.Wait()
		revoke(auth.ErrRevoked)
		require.ErrorIs(t, revoked.Wait(), auth.ErrRevoked)
		synctest.Wait()
		h.Release(held)
		require.NoError(t, other.Wait())
		require.Equal(t, claim.Active, c.State)
	})
}
