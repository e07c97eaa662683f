package claim_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

const reachedWorkload = `
id: w
image: box
command: [box, idle]
pool: { min_idle: 4, max_size: 9 }
`

// Idle containers that cannot be reached are passed over, however many: the claim
// tries the next one, and no other claim tries them again. Each costs a bounded time.
func TestClaimPassesOverUnreachedContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(reachedWorkload)
		h.AwaitIdle("w", 4)
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		lost := map[string]bool{}
		for _, c := range idle {
			lost[c.ID] = true
			h.RT.Before("reach "+c.ID, func(ctx context.Context, _ fake.Call) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}
		c, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada", Wait: time.Minute})
		require.NoError(t, err)
		require.NotContains(t, lost, c.Container)
		for id := range lost {
			k, err := h.Pools.Container(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, pool.Idle, k.State)
			require.Equal(t, pool.Unhealthy, k.Health)
			require.Empty(t, k.Tenant)
		}
	})
}

// A claim that passes over a container keeps its place before later ones.
func TestPassedOverClaimKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(reachedWorkload, "min_idle: 4, max_size: 9", "min_idle: 0, max_size: 1"))
		_, create := h.RT.Block("create")
		h.RT.BreakOnce("reach", runtime.ErrUnresponsive) // the pool finds that it responds
		for _, tenant := range []string{"ada", "bob"} {
			go h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: tenant, Wait: time.Hour}) //nolint:errcheck // one waits
			<-time.After(time.Second)
		}
		create()
		h.Await("a claim to be active", func() bool { return len(h.Events(activity.ClaimActivated)) == 1 })
		require.Equal(t, "ada", h.Events(activity.ClaimActivated)[0].Tenant)
		require.Len(t, h.Events(activity.ContainerReached), 1)
	})
}

// An engine that does not respond says nothing about its containers: they stay
// usable.
func TestOutageMarksNoContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(reachedWorkload)
		h.AwaitIdle("w", 4)
		h.RT.SetDown(true)
		_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada", Wait: time.Minute})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		for _, k := range idle {
			require.Equal(t, pool.Healthy, k.Health)
		}
	})
}
