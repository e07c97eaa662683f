package release_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
)

// A claim is released when its lifetime ends, whatever its use, unless it was
// extended; also when the server was down at that time.
func TestLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		startLoops(t, h)
		claims := map[string]claim.Claim{}
		for _, tenant := range []string{"short", "extended"} {
			c, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: tenant, ExpiresIn: time.Minute})
			require.NoError(t, err)
			claims[tenant] = c
		}
		state := func(tenant string) claim.Claim {
			c, err := h.DB.Claim(t.Context(), claims[tenant].ID)
			require.NoError(t, err)
			return c
		}
		<-time.After(50 * time.Second)
		_, err := h.Claims.Touch(t.Context(), claims["short"].ID)
		require.NoError(t, err)
		_, err = h.Claims.Extend(t.Context(), claims["extended"].ID, time.Hour)
		require.NoError(t, err)
		require.Equal(t, claim.Active, state("short").State)
		<-time.After(20 * time.Second)
		ended := state("short")
		require.Equal(t, claim.Released, ended.State)
		require.Equal(t, "its lifetime has ended", ended.Reason)
		require.Equal(t, claim.Active, state("extended").State)
		<-time.After(time.Hour)
		synctest.Wait()
		require.Equal(t, claim.Released, state("extended").State)
	})
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		c, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada", ExpiresIn: time.Minute})
		require.NoError(t, err)
		<-time.After(time.Hour)
		h.Restart()
		startLoops(t, h)
		<-time.After(5 * time.Second)
		c, err = h.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Released, c.State)
	})
}
