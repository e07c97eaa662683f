package pool_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
)

// slowHookYAML is a workload with a hook that can be blocked.
const slowHookYAML = `
id: w
image: box
command: [box, idle]
pool: { min_idle: 3, max_size: 10, reuse: never }
hooks: { post_claim: [{ command: [box, echo, slow], timeout: 10m }] }
`

// created is how many containers of w were created so far.
func created(h *flowtest.Harness) int { return createdOf(h, "w") }

// While a claim is in progress, containers that no claim waits for are created
// later, and one at a time; soon after its end the pool is filled.
func TestFillYieldsToClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(slowHookYAML, "min_idle: 3", "min_idle: 6"))
		h.AwaitIdle("w", 6)
		_, unblock := h.RT.Block("exec * box echo slow")
		var claims errgroup.Group
		for _, tenant := range []string{"ada", "bob"} {
			claims.Go(func() error {
				_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: tenant})
				return err
			})
		}
		<-time.After(time.Second)
		synctest.Wait()
		require.Equal(t, 6, created(h), "the pool yields")
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.Equal(t, 7, created(h), "and is filled slowly")
		unblock()
		require.NoError(t, claims.Wait())
		<-time.After(150 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 8, created(h), "and filled soon after the last claim")
	})
}

// A claim that waits for a container is not delayed by other claims.
func TestWaitingClaimsDoNotYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(slowHookYAML)
		h.AwaitIdle("w", 3)
		_, unblock := h.RT.Block("exec * box echo slow")
		var claims errgroup.Group
		for n := range 6 {
			claims.Go(func() error {
				_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: fmt.Sprint(n), Wait: time.Minute})
				return err
			})
		}
		<-time.After(500 * time.Millisecond)
		synctest.Wait()
		require.GreaterOrEqual(t, created(h), 6, "each has a container")
		unblock()
		require.NoError(t, claims.Wait())
	})
}

// A claim that failed is not in progress any more.
func TestFailedClaimDoesNotHoldUpFilling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(slowHookYAML)
		h.AwaitIdle("w", 3)
		h.RT.BreakOnce("exec * box echo slow", fmt.Errorf("broken"))
		_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "eve"})
		require.Error(t, err)
		before := created(h)
		<-time.After(500 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, before+1, created(h), "it is not in progress any more")
	})
}

// Filling does not begin in the gap between two claims.
func TestFillDoesNotBeginBetweenClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(slowHookYAML)
		h.AwaitIdle("w", 3)
		h.Claim("w", "ada")
		h.Pools.Wake("w")
		<-time.After(50 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 3, created(h), "the next claim may follow")
		<-time.After(150 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 4, created(h))
	})
}

// A claim whose hook takes long holds up filling for a bounded time, and a
// container whose creation hangs holds up neither its own pool nor another.
func TestYieldingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedYAML("w", 9, 20))
		h.AwaitIdle("w", 9)
		_, unblock := h.RT.Block("exec * box echo w")
		defer unblock()
		_, unblockCreate := h.RT.Block("create")
		defer unblockCreate()
		h.Apply(plainYAML("hangs", 1, 1))
		<-time.After(time.Second)
		var claims errgroup.Group
		for n := range 5 {
			claims.Go(func() error {
				_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: fmt.Sprint(n)})
				return err
			})
		}
		<-time.After(2500 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 9+1, created(h), "though the creation of another pool hangs")
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.Equal(t, 9+2, created(h), "though its own hangs")
		<-time.After(6 * time.Second)
		h.Apply(plainYAML("later", 3, 3))
		<-time.After(time.Millisecond)
		synctest.Wait()
		require.Equal(t, 3, createdOf(h, "later"), "the claims are not yielded to any more")
		unblock()
		unblockCreate()
		require.NoError(t, claims.Wait())
	})
}

// Claims that follow one another without a gap do not keep another pool empty.
func TestYieldingToManyClaimsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(slowHookYAML)
		h.AwaitIdle("w", 3)
		h.Release(h.Claim("w", "first"))
		h.Apply(flowtest.Edit(slowHookYAML, "id: w", "id: other"))
		for n := range 60 {
			h.Release(h.Claim("w", fmt.Sprint(n)))
			<-time.After(50 * time.Millisecond)
		}
		all, err := h.DB.Containers(t.Context(), pool.ContainerFilter{Workload: "other"})
		require.NoError(t, err)
		require.NotEmpty(t, all)
	})
}
