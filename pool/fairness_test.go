package pool_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/store"
)

// Health checks of one workload that hang do not delay those of another.
func TestHangingChecksDoNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		const check = "healthcheck: { test: [CMD, box, echo, healthy], interval: 10s, timeout: 10m, retries: 1 }\n"
		h.Apply(strings.Replace(basicYAML, "min_idle: 2, max_size: 4", "min_idle: 40, max_size: 40", 1) + check)
		h.Apply(strings.Replace(basicYAML, "id: w", "id: v", 1) + check)
		h.AwaitIdle("w", 40)
		h.AwaitIdle("v", 2)
		var hanging, checked atomic.Int64
		h.RT.Before("exec * box echo healthy", func(ctx context.Context, call fake.Call) error {
			c, err := h.Pools.Container(ctx, call.ID)
			if err != nil || c.Workload == "v" {
				checked.Add(1)
				return err
			}
			hanging.Add(1)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(t, int64(16), hanging.Load())
		before := checked.Load()
		<-time.After(time.Minute)
		synctest.Wait()
		require.InDelta(t, 12, checked.Load()-before, 2, "two containers, every ten seconds")
	})
}

// Several containers of a workload are created concurrently, and of several
// workloads more. A pool whose creations hang can be drained.
func TestConcurrentCreates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		_, unblock := h.RT.Block("create")
		defer unblock()
		for _, id := range []string{"w", "v", "u"} {
			h.Apply(strings.NewReplacer("min_idle: 2, max_size: 4", "min_idle: 10, max_size: 10", "id: w", "id: "+id).Replace(basicYAML))
			<-time.After(time.Second)
		}
		require.Equal(t, 4, h.Count("w", pool.Creating), "the limit of a workload")
		require.Equal(t, 4, h.Count("v", pool.Creating))
		require.Equal(t, 1, h.Count("u", pool.Creating), "a reserved slot")
		_, err := h.Pools.Drain(t.Context(), "w")
		require.NoError(t, err)
		unblock()
		h.AwaitIdle("v", 10)
		h.AwaitIdle("u", 10)
		h.AwaitIdle("w", 0)
		ofDrained := slices.DeleteFunc(h.Events(activity.ContainerCreating), func(e activity.Event) bool { return e.Workload != "w" })
		require.Len(t, ofDrained, 4, "those that were being created")
	})
}

// Some workloads whose creations hang do not keep another one empty.
func TestHungCreationsOfSomeWorkloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.RT.Before("create", func(ctx context.Context, call fake.Call) error {
			c, err := h.Pools.Container(ctx, call.ID)
			if err != nil || c.Workload == "good" {
				return err
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		for _, id := range []string{"bad1", "bad2", "bad3"} {
			h.Apply(strings.Replace(poolYAML(4, 4), "id: w", "id: "+id, 1))
		}
		synctest.Wait()
		h.Apply(strings.Replace(poolYAML(1, 1), "id: w", "id: good", 1))
		_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "good", Tenant: "ada", Wait: 5 * time.Minute})
		require.NoError(t, err)
	})
}

// Some workloads with slow pre_destroy hooks do not keep the containers of another
// one from being removed.
func TestSlowPreDestroysOfSomeWorkloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		for _, id := range []string{"bad1", "bad2", "bad3"} {
			h.Apply(strings.Replace(poolYAML(8, 8), "id: w", "id: "+id, 1) +
				"hooks: { pre_destroy: [{ command: [box, hang], timeout: 5m }] }\n")
			h.AwaitIdle(id, 8)
		}
		h.Apply(strings.Replace(poolYAML(1, 1), "id: w", "id: good", 1))
		h.AwaitIdle("good", 1)
		for _, id := range []string{"bad1", "bad2", "bad3", "good"} {
			_, err := h.Pools.Drain(t.Context(), id)
			require.NoError(t, err)
		}
		start := time.Now()
		h.AwaitIdle("good", 0)
		require.Less(t, time.Since(start), time.Minute)
	})
}

// slowWrites is a store whose changes of containers take 5 ms, as a sync of a
// disk does.
type slowWrites struct{ *store.DB }

func (s slowWrites) UpdateContainer(ctx context.Context, m pool.Transition) (pool.Container, error) {
	<-time.After(5 * time.Millisecond)
	return s.DB.UpdateContainer(ctx, m)
}

// The draining of a large pool delays no other pool. All of its containers are
// destroyed.
func TestDrainOfLargePoolDelaysNoOther(t *testing.T) {
	const size = 500
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.NewStopped(t)
		h.Apply(strings.Replace(poolYAML(0, size), "id: w", "id: big", 1))
		big, err := h.Pools.Workload(t.Context(), "big")
		require.NoError(t, err)
		for i := range size {
			id := fmt.Sprintf("k%03d", i)
			require.NoError(t, h.DB.AddContainer(t.Context(), pool.Container{ID: id, Workload: "big", Revision: big.Revision}, size))
			_, err = h.DB.UpdateContainer(t.Context(), pool.Ready(id, func(c *pool.Container) { c.Health = pool.Healthy }))
			require.NoError(t, err)
		}
		db, log, hookRunner := slowWrites{h.DB}, slog.New(slog.DiscardHandler), flowtest.HookRunner(h.RT, h.DB, nil)
		f := pool.NewFiller(db, h.Pools.Catalog, pool.NewProvisioner(db, h.RT, hookRunner, h.Pools.Health, log), h.Pools.Queue, log)
		ctx, cancel := context.WithCancel(t.Context())
		var g errgroup.Group
		g.Go(func() error { return f.Run(ctx) })
		defer func() { cancel(); require.NoError(t, g.Wait()) }()
		synctest.Wait()
		_, err = h.Pools.Drain(t.Context(), "big")
		require.NoError(t, err)
		f.Wake("big")
		<-time.After(time.Millisecond)
		h.Apply(poolYAML(1, 1))
		f.Wake("w")
		<-time.After(time.Second)
		synctest.Wait()
		require.Equal(t, 1, created(h))
		<-time.After(10 * time.Second)
		synctest.Wait()
		require.Equal(t, size, h.Count("big", pool.Destroying))
	})
}

// Containers that expire together delay no other pool, either.
func TestExpiryOfLargePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: 120, max_size: 120, idle_timeout: 1m }\n")
		h.AwaitIdle("w", 120)
		h.Pools.Wake("w")
		zero := 0
		<-time.After(2 * time.Minute)
		_, err := h.Pools.Scale(t.Context(), "w", pool.Scale{MinIdle: &zero})
		require.NoError(t, err)
		<-time.After(time.Second)
		synctest.Wait()
		require.Zero(t, h.Count("w", pool.Idle))
	})
}
