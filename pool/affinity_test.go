package pool_test

import (
	"errors"
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

// poolYAML returns a workload with the default reuse.
func poolYAML(minIdle, maxSize int) string {
	return fmt.Sprintf("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: %d, max_size: %d }\n", minIdle, maxSize)
}

// By default, a container that a tenant has used is never assigned to another
// tenant; its tenant gets it again.
func TestUsedContainersAreReusedBySameTenantOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(poolYAML(1, 8))
		used := map[string]string{} // container → tenant
		for round := range 3 {
			for _, tenant := range []string{"ada", "bob", "cyd"} {
				c := h.Claim("w", tenant)
				if round > 0 {
					require.Equal(t, claim.Affinity, c.Source)
				}
				if last, ok := used[c.Container]; ok {
					require.Equal(t, last, tenant, "container %s", c.Container)
				}
				used[c.Container] = tenant
				h.Release(c)
			}
		}
		require.Len(t, used, 3)
	})
}

// If min_idle needs room, only the least recently used tenant-bound container is
// replaced.
func TestLeastRecentlyUsedIsEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(poolYAML(1, 3))
		ada := h.Claim("w", "ada")
		h.Until("a fresh container", func() bool { return countUnused(h) > 0 })
		bob := h.Claim("w", "bob")
		h.Until("a fresh container", func() bool { return countUnused(h) > 0 })
		h.Release(bob)
		<-time.After(time.Minute)
		h.Release(ada) // created first, and used last
		h.AwaitIdle("w", 3)
		cyd := h.Claim("w", "cyd")
		require.Equal(t, claim.Fresh, cyd.Source)
		h.Until("bob's container to be replaced", func() bool {
			c, err := h.Pools.Container(t.Context(), bob.Container)
			return err == nil && c.State == pool.Destroyed
		})
		h.Until("a fresh container", func() bool { return countUnused(h) == 1 })
		require.Equal(t, ada.Container, h.Claim("w", "ada").Container)
		c, err := h.Pools.Container(t.Context(), bob.Container)
		require.NoError(t, err)
		require.Contains(t, c.Reason, "needs its room for other tenants")
	})
}

// countUnused counts the idle containers that no tenant has used.
func countUnused(h *flowtest.Harness) int {
	all, err := h.Pools.Containers(h.T.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
	require.NoError(h.T, err)
	n := 0
	for _, c := range all {
		if c.Tenant == "" {
			n++
		}
	}
	return n
}

// Room is made for all waiting claims concurrently, not one after another.
func TestRoomIsMadeForAllWaitingClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(poolYAML(0, 4))
		var claims []claim.Claim
		for _, tenant := range []string{"ada", "bob", "cyd", "dan"} {
			claims = append(claims, h.Claim("w", tenant))
		}
		for _, c := range claims {
			h.Release(c)
		}
		for _, tenant := range []string{"eve", "fay", "gus", "hal"} {
			c := h.Claim("w", tenant)
			require.Equal(t, claim.Fresh, c.Source)
		}
		require.Equal(t, 4, h.Count("w", pool.Claimed))
	})
}

// A tenant-bound container does not count towards min_idle and does not outlive
// idle_timeout; min_idle of the other containers remain.
func TestIdleTimeoutOfTenantBoundContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(poolYAML(2, 6), "max_size: 6", "max_size: 6, idle_timeout: 10m"))
		h.AwaitIdle("w", 2)
		c := h.Claim("w", "ada")
		h.AwaitIdle("w", 2)
		before := countUnused(h)
		h.Release(c)
		h.AwaitIdle("w", 3)
		require.Equal(t, before, countUnused(h))
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		<-time.After(11 * time.Minute)
		expired, err := h.Pools.Container(t.Context(), c.Container)
		require.NoError(t, err)
		require.Equal(t, pool.Destroyed, expired.State)
		for _, k := range idle {
			if k.ID == c.Container {
				continue
			}
			current, err := h.Pools.Container(t.Context(), k.ID)
			require.NoError(t, err)
			require.Equal(t, pool.Idle, current.State, "containers are not replaced unnecessarily")
		}
	})
}

// While creation fails, tenant-bound containers remain for their tenants. One
// was evicted before the first failure.
func TestNoEvictionWhileCreateFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(poolYAML(0, 3))
		kept := map[string]claim.Claim{}
		for _, tenant := range []string{"ada", "bob", "cyd"} {
			kept[tenant] = h.Claim("w", tenant)
			<-time.After(time.Minute)
		}
		for _, tenant := range []string{"ada", "bob", "cyd"} {
			h.Release(kept[tenant])
			<-time.After(time.Minute)
		}
		h.RT.Break("create", errors.New("no space left"))
		claimFails := func(tenant string) error {
			_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: tenant, Wait: 10 * time.Second})
			if err == nil {
				return errors.New(tenant + " got a container")
			}
			return nil
		}
		require.NoError(t, claimFails("dan"))
		var g errgroup.Group
		for _, tenant := range []string{"eve", "fay", "gus"} {
			g.Go(func() error { return claimFails(tenant) })
		}
		require.NoError(t, g.Wait())
		for _, tenant := range []string{"bob", "cyd"} {
			require.Equal(t, kept[tenant].Container, h.Claim("w", tenant).Container)
		}
	})
}
