package pool_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

// Containers that fail their health check are replaced when idle and reported
// when claimed, and a check that succeeds again clears the report.
func TestUnhealthyContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		var unhealthy sync.Map
		h.RT.Before("exec * box echo healthy", func(_ context.Context, call fake.Call) error {
			if _, ok := unhealthy.Load(call.ID); ok {
				return fmt.Errorf("%w", runtime.ErrTainted)
			}
			return nil
		})
		h.Apply(basicYAML + "healthcheck: { test: [CMD, box, echo, healthy], interval: 10s, retries: 2 }\n")
		h.AwaitIdle("w", 2)
		c := h.Claim("w", "ada")
		h.AwaitIdle("w", 2)
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		unhealthy.Store(c.Container, true)
		unhealthy.Store(idle[1].ID, true)
		start := time.Now()
		h.Until("two reports", func() bool { return len(h.Events(activity.ContainerUnhealthy)) == 2 })
		require.Less(t, time.Since(start), 31*time.Second, "retries are 2, the interval 10 s")
		h.AwaitIdle("w", 2)
		destroyed, err := h.Pools.Container(t.Context(), idle[1].ID)
		require.NoError(t, err)
		require.Equal(t, pool.Destroyed, destroyed.State)

		active, err := h.Pools.Container(t.Context(), c.Container)
		require.NoError(t, err)
		require.Equal(t, pool.Unhealthy, active.Health)
		require.Equal(t, pool.Claimed, active.State)
		unhealthy.Delete(c.Container)
		requireHealthy := func() {
			t.Helper()
			<-time.After(11 * time.Second)
			active, err := h.Pools.Container(t.Context(), c.Container)
			require.NoError(t, err)
			require.Equal(t, pool.Healthy, active.Health)
		}
		requireHealthy()

		// A failover has lost the last report with its event.
		<-time.After(11 * time.Second)
		_, err = h.DB.UpdateContainer(t.Context(), pool.Note(c.Container, pool.Claimed, func(c *pool.Container) { c.Health = pool.Unhealthy }))
		require.NoError(t, err)
		require.NoError(t, h.Pools.EventHandlers().Resync(t.Context()))
		requireHealthy()
	})
}
