package pool_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

// An idle container that someone else has the engine remove leaves the pool at
// once, although it still runs, and is replaced. That is not a failure of its
// workload. The server need not have been running when it began.
func TestTerminatingContainerIsReplaced(t *testing.T) {
	for name, wasDown := range map[string]bool{"observed": false, "while the server was down": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(basicYAML)
				h.AwaitIdle("w", 2)
				if wasDown {
					h.RT.SetDown(true)
				}
				idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
				require.NoError(t, err)
				_, release := h.RT.Block("destroy")
				defer release()
				for _, c := range idle {
					h.RT.SetCondition(c.ID, runtime.Terminating)
				}
				h.RT.SetDown(false)
				h.Until("they are replaced", func() bool { return h.Count("w", pool.Destroying) == 2 && h.Count("w", pool.Idle) == 2 })
				require.Len(t, h.Events(activity.ContainerTerminating), 2)
				require.Empty(t, h.Events(activity.PoolWarning))
			})
		})
	}
}

// A claimed container that terminates has one event, which its health check does
// not undo, and its exit is another one.
func TestTerminatingClaimedContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(basicYAML + "healthcheck: { test: [CMD, box, echo], interval: 1s }\n")
		c := h.Claim("w", "ada")
		h.RT.SetCondition(c.Container, runtime.Terminating)
		<-time.After(2 * time.Minute)
		events := h.Events(activity.ContainerTerminating)
		require.Len(t, events, 1)
		require.Equal(t, c.ID, events[0].Claim)
		k, err := h.Pools.Container(t.Context(), c.Container)
		require.NoError(t, err)
		require.True(t, k.IsTerminating())
		h.RT.Kill(c.Container)
		h.Await("the exit", func() bool { return len(h.Events(activity.ContainerDied)) == 1 })
	})
}

// An idle container whose machine does not report is passed over and replaced. It is
// usable again only when it responds.
func TestUnreachableContainerIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(basicYAML, "min_idle: 2", "min_idle: 1"))
		h.AwaitIdle("w", 1)
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		lost := idle[0].ID
		health := func() pool.Health {
			c, err := h.Pools.Container(t.Context(), lost)
			require.NoError(t, err)
			return c.Health
		}
		restore := h.RT.Break("reach "+lost, runtime.ErrUnavailable)
		h.RT.SetCondition(lost, runtime.Unreachable)
		h.AwaitIdle("w", 2)
		require.NotEqual(t, lost, h.Claim("w", "ada").Container)
		h.RT.SetCondition(lost, "")
		<-time.After(time.Second)
		require.Equal(t, pool.Unhealthy, health())
		restore()
		<-time.After(time.Minute)
		require.Equal(t, pool.Healthy, health())
	})
}

// Containers that cannot be reached make room for others.
func TestUnreachableContainersMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(basicYAML, "max_size: 4", "max_size: 2"))
		h.AwaitIdle("w", 2)
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		for _, c := range idle {
			h.RT.SetCondition(c.ID, runtime.Unreachable)
		}
		synctest.Wait()
		c, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada", Wait: time.Minute})
		require.NoError(t, err)
		require.NotContains(t, []string{idle[0].ID, idle[1].ID}, c.Container)
	})
}
