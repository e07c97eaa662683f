package pool_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime/fake"
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
		require.Equal(t, int64(16), hanging.Load())
		before := checked.Load()
		<-time.After(time.Minute)
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
		require.Equal(t, 0, h.Count("u", pool.Creating), "the limit of all")
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
