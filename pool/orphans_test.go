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
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

func orphanSpec(id string) runtime.Spec {
	return runtime.Spec{ID: id, Workload: "lost", Image: "box", Command: []string{"box", "idle"}}
}

// A container without a record is removed after a grace period, in which an
// operator may stop a server that runs on the wrong database. The reason is
// recorded before the removal.
func TestOrphanRemovedAfterGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		require.NoError(t, h.RT.Create(t.Context(), orphanSpec("unknown")))
		h.Restart() // reconciles immediately
		<-time.After(20 * time.Second)
		_, err := h.RT.Status(t.Context(), "unknown")
		require.NoError(t, err, "it is not removed yet")
		require.Empty(t, h.Events(activity.ContainerDestroying))

		restore := h.RT.Break("destroy", runtime.ErrUnavailable)
		<-time.After(time.Minute)
		events := h.Events(activity.ContainerDestroying)
		require.Len(t, events, 1, "one event for all attempts")
		require.Equal(t, "unknown", events[0].Container)
		require.Contains(t, string(events[0].Data), "it has no record in the database")
		require.Empty(t, h.Events(activity.ContainerDestroyed))

		restore()
		<-time.After(31 * time.Second)
		_, err = h.RT.Status(t.Context(), "unknown")
		require.ErrorIs(t, err, runtime.ErrNotFound)
		require.Len(t, h.Events(activity.ContainerDestroying), 1)
		require.Len(t, h.Events(activity.ContainerDestroyed), 1)
	})
}

// An orphan that cannot be removed does not prevent the detection of exits.
func TestStuckOrphanDoesNotBlockWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		require.NoError(t, h.RT.Create(t.Context(), orphanSpec("unknown")))
		h.Restart()
		restore := h.RT.Break("destroy unknown", runtime.ErrUnavailable)
		defer restore()
		<-time.After(time.Minute)
		h.RT.SetDown(true)
		<-time.After(time.Second)
		h.RT.SetDown(false)
		<-time.After(time.Minute)
		h.ForgetCalls()
		<-time.After(10 * time.Minute)
		synctest.Wait()
		require.Contains(t, h.RT.Calls(), "destroy unknown", "it is retried")
		require.NotContains(t, strings.Join(h.RT.Calls(), " "), "watch")
	})
}

// Each orphan has its own grace period, which restarts if the orphan was absent
// in between.
func TestOrphanGraceRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		require.NoError(t, h.RT.Create(t.Context(), orphanSpec("unknown")))
		h.Restart()
		<-time.After(time.Second)
		synctest.Wait()
		require.NoError(t, h.RT.Destroy(t.Context(), "unknown"))
		<-time.After(30 * time.Second) // reconciled again
		synctest.Wait()
		require.NoError(t, h.RT.Create(t.Context(), orphanSpec("unknown")))
		<-time.After(30 * time.Second)
		_, err := h.RT.Status(t.Context(), "unknown")
		require.NoError(t, err)
		<-time.After(30 * time.Second)
		_, err = h.RT.Status(t.Context(), "unknown")
		require.ErrorIs(t, err, runtime.ErrNotFound)
	})
}

// A container that is recorded as destroyed is removed at the next comparison.
func TestDestroyedContainerReappearingHasNoGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(basicYAML)
		h.AwaitIdle("w", 2)
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		id := idle[0].ID
		require.NoError(t, h.Pools.DestroyContainer(t.Context(), id, false))
		h.Until("its removal", func() bool { return len(h.Events(activity.ContainerDestroyed)) == 1 })
		// A call that has timed out takes effect late.
		require.NoError(t, h.RT.Create(t.Context(), orphanSpec(id)))
		h.Restart()
		synctest.Wait()
		_, err = h.RT.Status(t.Context(), id)
		require.ErrorIs(t, err, runtime.ErrNotFound)
	})
}

// A container that is destroyed while engine and database are compared is not an
// orphan: its end is recorded once.
func TestDestroyDuringReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(basicYAML)
		h.AwaitIdle("w", 2)
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		first := true
		h.RT.After("list", func(_ context.Context, _ fake.Call) error {
			if first {
				first = false
				require.NoError(t, h.Pools.DestroyContainer(t.Context(), idle[0].ID, false))
				h.Await("its removal", func() bool { return len(h.Events(activity.ContainerDestroyed)) == 1 })
			}
			return nil
		})
		<-time.After(time.Minute)
		synctest.Wait()
		require.False(t, first)
		require.Len(t, h.Events(activity.ContainerDestroying), 1)
		require.Len(t, h.Events(activity.ContainerDestroyed), 1)
	})
}

// An orphan whose removal hangs delays no comparison. Its removal is tried again.
func TestHungRemovalOfOrphan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(poolYAML(1, 2))
		h.AwaitIdle("w", 1)
		require.NoError(t, h.RT.Create(t.Context(), orphanSpec("orphan")))
		var attempts atomic.Int64
		h.RT.Before("destroy orphan", func(ctx context.Context, _ fake.Call) error {
			if attempts.Add(1) > 1 {
				return nil
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		<-time.After(2 * time.Minute) // its removal hangs
		synctest.Wait()
		require.Equal(t, int64(1), attempts.Load())
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w"})
		require.NoError(t, err)
		h.RT.SetDown(true) // a restart of the engine, during which the container exits
		synctest.Wait()
		h.RT.Kill(idle[0].ID)
		synctest.Wait()
		h.RT.SetDown(false)
		<-time.After(time.Minute)
		c, err := h.Pools.Container(t.Context(), idle[0].ID)
		require.NoError(t, err)
		require.Equal(t, pool.Destroyed, c.State, "its exit is detected")
		_, err = h.RT.Status(t.Context(), "orphan")
		require.NoError(t, err)
		<-time.After(5 * time.Minute)
		_, err = h.RT.Status(t.Context(), "orphan")
		require.ErrorIs(t, err, runtime.ErrNotFound)
		ends := slices.DeleteFunc(h.Events(activity.ContainerDestroying, activity.ContainerDestroyed),
			func(e activity.Event) bool { return e.Container != "orphan" })
		require.Len(t, ends, 2)
	})
}

// A container that could not be removed, and has a record by now, is kept.
func TestOrphanWithLateRecordIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		applied := h.Apply(poolYAML(0, 2))
		require.NoError(t, h.RT.Create(t.Context(), orphanSpec("late")))
		require.NoError(t, h.RT.Start(t.Context(), "late", pool.FirstFence))
		restore := h.RT.Break("destroy", runtime.ErrUnavailable)
		<-time.After(2 * time.Minute)
		synctest.Wait()
		require.NotEmpty(t, h.Events(activity.ContainerDestroying))
		require.NoError(t, h.DB.AddContainer(t.Context(), pool.Container{ID: "late", Workload: "w", Revision: applied.Record.Revision}, 2))
		_, err := h.DB.UpdateContainer(t.Context(), pool.Ready("late", func(c *pool.Container) { c.Health = pool.Healthy }))
		require.NoError(t, err)
		restore()
		<-time.After(2 * time.Minute)
		_, err = h.RT.Status(t.Context(), "late")
		require.NoError(t, err)
	})
}
