package pool_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/pool"
)

// sized is a workload that says nothing of reuse.
func sized(minIdle, maxSize int) string {
	return fmt.Sprintf("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: %d, max_size: %d }\n", minIdle, maxSize)
}

// By default a container that a tenant has used is never given to another one,
// and its tenant finds it again.
func TestUsedContainersAreKeptForTheirTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(sized(1, 8))
		used := map[string]string{} // container → tenant
		for round := range 3 {
			for _, tenant := range []string{"ada", "bob", "cyd"} {
				c := y.Claim("w", tenant)
				if round > 0 {
					require.Equal(t, claim.Affinity, c.Source)
				}
				if last, ok := used[c.Container]; ok {
					require.Equal(t, last, tenant, "container %s", c.Container)
				}
				used[c.Container] = tenant
				y.Release(c)
			}
		}
		require.Len(t, used, 3)
	})
}

// When min_idle lacks room, the container that its tenant has not used for the
// longest time is replaced, and no other.
func TestLeastRecentlyUsedIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(sized(1, 3))
		ada := y.Claim("w", "ada")
		y.Until("a fresh container", func() bool { return fresh(y) > 0 })
		bob := y.Claim("w", "bob")
		y.Until("a fresh container", func() bool { return fresh(y) > 0 })
		y.Release(bob)
		<-time.After(time.Minute)
		y.Release(ada) // made first, and used last
		y.Idle("w", 3)
		cyd := y.Claim("w", "cyd")
		require.Equal(t, claim.Fresh, cyd.Source)
		y.Until("bob's container to be replaced", func() bool {
			c, err := y.Pools.Container(t.Context(), bob.Container)
			return err == nil && c.State == pool.Gone
		})
		y.Until("a fresh container", func() bool { return fresh(y) == 1 })
		require.Equal(t, ada.Container, y.Claim("w", "ada").Container)
		c, err := y.Pools.Container(t.Context(), bob.Container)
		require.NoError(t, err)
		require.Contains(t, c.Reason, "needs its room for other tenants")
	})
}

// fresh counts the idle containers that nobody has used.
func fresh(y *flowtest.Yard) int {
	all, err := y.Pools.Containers(y.T.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
	require.NoError(y.T, err)
	n := 0
	for _, c := range all {
		if c.Tenant == "" {
			n++
		}
	}
	return n
}

// Claims that wait get room for all of them at once, not one after another.
func TestRoomForAllThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(sized(0, 4))
		var held []claim.Claim
		for _, tenant := range []string{"ada", "bob", "cyd", "dan"} {
			held = append(held, y.Claim("w", tenant))
		}
		for _, c := range held {
			y.Release(c)
		}
		for _, tenant := range []string{"eve", "fay", "gus", "hal"} {
			c := y.Claim("w", tenant)
			require.Equal(t, claim.Fresh, c.Source)
		}
		require.Equal(t, 4, y.Count("w", pool.Claimed))
	})
}

// What is kept for its last tenant neither counts as min_idle nor outlives
// idle_timeout; what any tenant may have stays at min_idle.
func TestIdleTimeoutOfKeptContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(sized(2, 6), "max_size: 6", "max_size: 6, idle_timeout: 10m", 1))
		y.Idle("w", 2)
		c := y.Claim("w", "ada")
		y.Idle("w", 2)
		before := fresh(y)
		y.Release(c)
		y.Idle("w", 3)
		require.Equal(t, before, fresh(y))
		idle, err := y.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		<-time.After(11 * time.Minute)
		gone, err := y.Pools.Container(t.Context(), c.Container)
		require.NoError(t, err)
		require.Equal(t, pool.Gone, gone.State)
		for _, k := range idle {
			if k.ID == c.Container {
				continue
			}
			still, err := y.Pools.Container(t.Context(), k.ID)
			require.NoError(t, err)
			require.Equal(t, pool.Idle, still.State, "nothing is made anew without need")
		}
	})
}

// While no container can be made, what is kept stays: its tenant can still
// have it. One had to go before that was known.
func TestKeptWhileNoneCanBeMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(sized(0, 3))
		kept := map[string]claim.Claim{}
		for _, tenant := range []string{"ada", "bob", "cyd"} {
			kept[tenant] = y.Claim("w", tenant)
			<-time.After(time.Minute)
		}
		for _, tenant := range []string{"ada", "bob", "cyd"} {
			y.Release(kept[tenant])
			<-time.After(time.Minute)
		}
		y.RT.Break("create", errors.New("no space left"))
		ask := func(tenant string) error {
			_, _, err := y.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: tenant, Wait: 10 * time.Second})
			if err == nil {
				return errors.New(tenant + " got a container")
			}
			return nil
		}
		require.NoError(t, ask("dan"))
		var together errgroup.Group
		for _, tenant := range []string{"eve", "fay", "gus"} {
			together.Go(func() error { return ask(tenant) })
		}
		require.NoError(t, together.Wait())
		for _, tenant := range []string{"bob", "cyd"} {
			require.Equal(t, kept[tenant].Container, y.Claim("w", tenant).Container)
		}
	})
}
