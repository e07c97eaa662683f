package pool_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime/fake"
)

// plainYAML returns a workload without hooks whose containers are not reused.
func plainYAML(id string, minIdle, maxSize int) string {
	return fmt.Sprintf("id: %s\nimage: box\ncommand: [box, idle]\n"+
		"pool: { min_idle: %d, max_size: %d, reuse: never }\n", id, minIdle, maxSize)
}

// hookedYAML is plainYAML with a post_claim hook that echoes the id.
func hookedYAML(id string, minIdle, maxSize int) string {
	return plainYAML(id, minIdle, maxSize) +
		fmt.Sprintf("hooks: { post_claim: [{ command: [box, echo, %s], timeout: 10m }] }\n", id)
}

// addNoise applies a workload whose containers are wiped and reused, and has
// two tenants claim and release it until stop is called: one claim is always in
// progress, and none waits for a container. Each claim takes 2 s.
func addNoise(h *flowtest.Harness) (stop func()) {
	h.T.Helper()
	h.Apply("id: noise\nimage: box\ncommand: [box, idle]\npool: { min_idle: 6, max_size: 6, reuse: wipe }\n" +
		"hooks: { post_claim: [{ command: [box, echo, noise], timeout: 10m }] }\n")
	h.AwaitIdle("noise", 6)
	h.RT.Delay("exec * box echo noise", 2*time.Second)
	var stopped atomic.Bool
	var g errgroup.Group
	for n := range 2 {
		g.Go(func() error {
			<-time.After(time.Duration(n) * time.Second)
			for !stopped.Load() {
				c, _, err := h.Claims.Claim(context.Background(), claim.Request{Workload: "noise", Tenant: fmt.Sprint(n)})
				if err != nil {
					return err
				}
				if _, err := h.Releases.Release(context.Background(), c.ID, release.Request{}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	<-time.After(1500 * time.Millisecond)
	return func() { stopped.Store(true); require.NoError(h.T, g.Wait()) }
}

// createdOf is how many containers of a workload were created so far.
func createdOf(h *flowtest.Harness, id string) int {
	h.T.Helper()
	all, err := h.DB.Containers(context.Background(), pool.ContainerFilter{Workload: id, States: pool.States()})
	require.NoError(h.T, err)
	return len(all)
}

// A pool that yields gets its container although the waiting claims of other
// pools occupy all slots.
func TestYieldingPoolGetsASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		stopNoise := addNoise(h)
		h.RT.Before("create", func(context.Context, fake.Call) error {
			<-time.After(time.Duration(1000+rand.IntN(1000)) * time.Millisecond)
			return nil
		})
		var stopped atomic.Bool
		var g errgroup.Group
		for _, id := range []string{"busy1", "busy2"} {
			h.Apply(plainYAML(id, 0, 100))
			for n := range 6 {
				g.Go(func() error {
					for !stopped.Load() {
						c, _, err := h.Claims.Claim(context.Background(), claim.Request{Workload: id, Tenant: fmt.Sprint(n), Wait: time.Minute})
						if err != nil {
							return err
						}
						if _, err := h.Releases.Release(context.Background(), c.ID, release.Request{}); err != nil {
							return err
						}
					}
					return nil
				})
			}
		}
		<-time.After(5 * time.Second)
		h.Apply(plainYAML("small", 1, 1))
		for minute := range 2 {
			<-time.After(time.Minute)
			t.Log(minute, createdOf(h, "small"))
			if createdOf(h, "small") > 0 {
				break
			}
		}
		got := createdOf(h, "small")
		stopped.Store(true)
		require.NoError(t, g.Wait())
		stopNoise()
		require.Equal(t, 1, got, "a pool whose only container is missing for 2 minutes")
	})
}

// A pool that is claimed from is filled faster the fewer containers it has: no
// claim waits because claims of other pools are in progress.
func TestYieldingKeepsAStock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		stopNoise := addNoise(h)
		h.Apply(plainYAML("w", 5, 50))
		h.AwaitIdle("w", 5)
		h.RT.Delay("create", 500*time.Millisecond)
		cold, worst := 0, time.Duration(0)
		for n := range 60 {
			next := time.After(time.Second)
			start := time.Now()
			c, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: fmt.Sprint(n), Wait: time.Minute})
			require.NoError(t, err)
			took := time.Since(start)
			if worst = max(worst, took); took > 100*time.Millisecond {
				cold++
			}
			h.Release(c)
			<-next
		}
		stopNoise()
		require.Zero(t, cold, "%d of 60 claims waited for a container, at most %s", cold, worst)
	})
}

// A long claim does not end the yielding to later ones.
func TestYieldsAfterALongClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedYAML("w", 4, 100))
		h.AwaitIdle("w", 4)
		h.RT.Delay("exec * box echo w", 3*time.Second)
		h.Claim("w", "long")
		h.AwaitIdle("w", 4)
		early := 0
		for n := range 10 {
			<-time.After(time.Minute) // nothing happens
			before := createdOf(h, "w")
			var g errgroup.Group
			g.Go(func() error {
				_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: fmt.Sprint(n)})
				return err
			})
			<-time.After(time.Second)
			early += createdOf(h, "w") - before
			require.NoError(t, g.Wait())
			h.AwaitIdle("w", 4)
		}
		require.Zero(t, early, "%d of 10 claims were not yielded to in their first second", early)
	})
}

// A pool that yields is filled although the creation of its first container
// hangs.
func TestHangingCreationDoesNotStopItsPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedYAML("w", 3, 100))
		h.AwaitIdle("w", 3)
		h.RT.Delay("exec * box echo w", 9*time.Minute)
		_, unblockCreate := h.RT.Block("create")
		var g errgroup.Group
		for _, tenant := range []string{"ada", "bob", "cy"} {
			g.Go(func() error {
				_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: tenant})
				return err
			})
		}
		<-time.After(6500 * time.Millisecond)
		got := createdOf(h, "w") - 3
		<-time.After(30 * time.Second)
		t.Log("begun after 6.5 s:", got, "and 36.5 s:", createdOf(h, "w")-3)
		unblockCreate()
		require.NoError(t, g.Wait())
		require.Equal(t, 3, got, "one in each 2 s, though the creation of the first one hangs")
	})
}

// A claim that tries several containers is yielded to for 10 s, not for 10 s
// each.
func TestClaimIsYieldedToOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: 3, max_size: 3, reuse: wipe }\n")
		h.AwaitIdle("w", 3)
		for n := range 3 {
			h.Claim("w", fmt.Sprintf("earlier%d", n)) // each container must be wiped
		}
		claims, err := h.DB.Claims(t.Context(), claim.Filter{States: []claim.State{claim.Active}})
		require.NoError(t, err)
		for _, c := range claims {
			h.Release(c)
		}
		h.AwaitIdle("w", 3)
		h.RT.Before("wipe", func(context.Context, fake.Call) error {
			<-time.After(9500 * time.Millisecond)
			return fmt.Errorf("broken")
		})
		_, unblockCreate := h.RT.Block("create")
		defer unblockCreate()
		var g errgroup.Group
		g.Go(func() error {
			//nolint:errcheck // whether it succeeds in the end does not matter
			h.Claims.Claim(context.Background(), claim.Request{Workload: "w", Tenant: "eve", Wait: time.Minute})
			return nil
		})
		synctest.Wait()
		<-time.After(11 * time.Second)
		h.Apply(plainYAML("later", 4, 4))
		<-time.After(time.Second)
		got := createdOf(h, "later")
		unblockCreate()
		require.NoError(t, g.Wait())
		require.Equal(t, 4, got, "12 s after the only claim began")
	})
}

// A claim that is resumed after a restart is yielded to.
func TestResumedClaimsAreYieldedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedYAML("w", 4, 100))
		h.AwaitIdle("w", 4)
		reached, unblock := h.RT.Block("exec * box echo w")
		var g errgroup.Group
		g.Go(func() error { // the previous server's call
			_, _, _ = h.Claims.Claim(context.Background(), claim.Request{Workload: "w", Tenant: "ada"})
			return nil
		})
		<-reached
		resultReached, unblockResult := h.RT.Block("outcome *")
		h.Restart()
		<-resultReached
		<-time.After(500 * time.Millisecond)
		got := createdOf(h, "w") - 4
		unblock()
		require.NoError(t, g.Wait())
		unblockResult()
		require.Zero(t, got, "containers created in the first half second of the resumed claim")
	})
}

// Claims that begin and end concurrently, and twice, leave nothing behind.
func TestClaimsLeaveNoYielding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(plainYAML("w", 0, 10))
		ends := make(chan func(), 1000)
		var g errgroup.Group
		for range 8 {
			g.Go(func() error {
				for range 2000 {
					end := h.Pools.BeginClaim()
					select {
					case ends <- end:
					default:
						end()
					}
					select {
					case other := <-ends:
						other()
						other()
					default:
					}
					h.Pools.WakeFiller("w")
				}
				return nil
			})
		}
		require.NoError(t, g.Wait())
		<-time.After(time.Minute)
		h.Apply(plainYAML("v", 3, 10))
		start := time.Now()
		h.AwaitIdle("v", 3)
		require.Zero(t, time.Since(start), "no claim is in progress")
	})
}

// A container that is kept for its tenant makes room just before the other is
// created, not before the pool yields.
func TestRoomIsMadeAfterYielding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.RT.Delay("create", 500*time.Millisecond)
		h.Apply("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: 1, max_size: 2, reuse: same_tenant }\n")
		h.AwaitIdle("w", 1)
		ada := h.Claim("w", "ada")
		h.AwaitIdle("w", 1)
		h.Release(ada) // kept for ada
		stopNoise := addNoise(h)
		h.Claim("w", "bob")
		<-time.After(300 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, claim.Affinity, h.Claim("w", "ada").Source, "her container exists until the pool has yielded")
		stopNoise()
	})
}
