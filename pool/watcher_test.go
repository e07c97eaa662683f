package pool_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

// An engine that does not list its containers does not keep the server from
// detecting exits: rule 10. The list is retried.
func TestHungListDoesNotBlockWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(basicYAML, "min_idle: 2", "min_idle: 1"))
		h.AwaitIdle("w", 1)
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		_, release := h.RT.Block("list")
		defer release()
		h.Restart()
		<-time.After(time.Second)
		h.ForgetCalls()
		h.RT.Kill(idle[0].ID)
		<-time.After(time.Second)
		exited, err := h.Pools.Container(t.Context(), idle[0].ID)
		require.NoError(t, err)
		require.NotEqual(t, pool.Idle, exited.State)

		<-time.After(10 * time.Minute)
		lists := slices.DeleteFunc(h.RT.Calls(), func(c string) bool { return c != "list" })
		require.Greater(t, len(lists), 2)
	})
}

// A container about which the engine does not answer does not keep the server
// from detecting what happened to the others while it was down.
func TestHungStatusDoesNotBlockReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(basicYAML)
		h.AwaitIdle("w", 2)
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		_, release := h.RT.Block("status")
		defer release()
		h.RT.SetDown(true)
		<-time.After(time.Second)
		h.RT.Kill(idle[0].ID)
		h.RT.Kill(idle[1].ID)
		h.RT.SetDown(false)
		<-time.After(2 * time.Minute)
		for _, c := range idle {
			exited, err := h.Pools.Container(t.Context(), c.ID)
			require.NoError(t, err)
			require.NotEqual(t, pool.Idle, exited.State)
		}
		require.Len(t, h.Events(activity.ContainerDied), 2)
	})
}

// A container that was started again after the list was read is not recorded as
// exited.
func TestReconcileReadsStatusOfExited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(basicYAML, "min_idle: 2", "min_idle: 1"))
		h.AwaitIdle("w", 1)
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		h.RT.SetDown(true)
		<-time.After(time.Second)
		h.RT.Kill(idle[0].ID)
		_, release := h.RT.Block("status " + idle[0].ID)
		h.RT.SetDown(false)
		<-time.After(10 * time.Second)
		synctest.Wait()
		require.NoError(t, h.RT.Start(t.Context(), idle[0].ID, 1))
		release()
		<-time.After(time.Second)
		c, err := h.Pools.Container(t.Context(), idle[0].ID)
		require.NoError(t, err)
		require.Equal(t, pool.Idle, c.State)
		s, err := h.RT.Status(t.Context(), idle[0].ID)
		require.NoError(t, err)
		require.Equal(t, runtime.Running, s.State)
	})
}
