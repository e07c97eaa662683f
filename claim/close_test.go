package claim_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
)

// What begins after Close is canceled, too: a claim, which costs no container,
// and an upload.
func TestNothingBeginsAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply("id: w\nimage: box\ncommand: [box, idle]\nvolumes: { state: { target: /data } }\n" +
			"pool: { min_idle: 1, max_size: 2 }\nsync: { sink: { type: file }, policy: { manual: true } }\n")
		held := h.Claim("w", "held")
		h.AwaitIdle("w", 1)
		stopping := errors.New("the server is stopping")
		h.Claims.Close(stopping)
		_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "late", Wait: 10 * time.Minute})
		require.ErrorIs(t, err, stopping)
		_, _, err = h.Claims.Sync(t.Context(), held.ID)
		require.ErrorIs(t, err, stopping)
		synctest.Wait()
		require.Equal(t, 1, h.Count("w", pool.Idle))
		claims, err := h.DB.Claims(t.Context(), claim.Filter{Tenant: "late", States: claim.States()})
		require.NoError(t, err)
		require.Empty(t, claims)
	})
}
