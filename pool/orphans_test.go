package pool_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

func orphanSpec(id string) runtime.Spec {
	return runtime.Spec{ID: id, Workload: "lost", Image: "box", Command: []string{"box", "idle"}}
}

// A container that the database never heard of has a grace, in which whoever
// runs a server on the wrong database may stop it, and then goes by itself. The
// log has the reason before the deed.
func TestOrphanHasGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		require.NoError(t, y.RT.Create(t.Context(), orphanSpec("unknown")))
		y.Crash() // compares at once
		<-time.After(20 * time.Second)
		_, err := y.RT.Status(t.Context(), "unknown")
		require.NoError(t, err, "it is left alone")
		require.Empty(t, y.Events(activity.ContainerDestroying))

		mend := y.RT.Break("destroy", runtime.ErrUnavailable)
		<-time.After(time.Minute)
		told := y.Events(activity.ContainerDestroying)
		require.Len(t, told, 1, "once, however often it is tried")
		require.Equal(t, "unknown", told[0].Container)
		require.Contains(t, string(told[0].Data), "the database does not know it")
		require.Empty(t, y.Events(activity.ContainerDestroyed))

		mend()
		<-time.After(31 * time.Second)
		_, err = y.RT.Status(t.Context(), "unknown")
		require.ErrorIs(t, err, runtime.ErrNotFound)
		require.Len(t, y.Events(activity.ContainerDestroying), 1)
		require.Len(t, y.Events(activity.ContainerDestroyed), 1)
	})
}

// One that cannot be removed does not keep anybody from hearing of deaths.
func TestOrphanThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		require.NoError(t, y.RT.Create(t.Context(), orphanSpec("unknown")))
		y.Crash()
		mend := y.RT.Break("destroy unknown", runtime.ErrUnavailable)
		defer mend()
		<-time.After(time.Minute)
		y.RT.SetDown(true)
		<-time.After(time.Second)
		y.RT.SetDown(false)
		<-time.After(time.Minute)
		y.RT.ForgetCalls()
		<-time.After(10 * time.Minute)
		require.Contains(t, y.RT.Calls(), "destroy unknown", "it is tried again")
		require.NotContains(t, strings.Join(y.RT.Calls(), " "), "watch")
	})
}

// Each orphan has a grace of its own, and one that was gone in between begins
// it anew.
func TestOrphanGraceBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		require.NoError(t, y.RT.Create(t.Context(), orphanSpec("unknown")))
		y.Crash()
		<-time.After(time.Second)
		require.NoError(t, y.RT.Destroy(t.Context(), "unknown"))
		<-time.After(30 * time.Second) // compared again
		require.NoError(t, y.RT.Create(t.Context(), orphanSpec("unknown")))
		<-time.After(30 * time.Second)
		_, err := y.RT.Status(t.Context(), "unknown")
		require.NoError(t, err)
		<-time.After(30 * time.Second)
		_, err = y.RT.Status(t.Context(), "unknown")
		require.ErrorIs(t, err, runtime.ErrNotFound)
	})
}

// What the database has given up goes at the next comparison.
func TestGivenUpHasNoGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(plain)
		y.Idle("w", 2)
		idle, err := y.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		id := idle[0].ID
		require.NoError(t, y.Pools.DestroyContainer(t.Context(), id, false))
		y.Until("it to go", func() bool { return len(y.Events(activity.ContainerDestroyed)) == 1 })
		// A call that was given up has its effect late.
		require.NoError(t, y.RT.Create(t.Context(), orphanSpec(id)))
		y.Crash()
		synctest.Wait()
		_, err = y.RT.Status(t.Context(), id)
		require.ErrorIs(t, err, runtime.ErrNotFound)
	})
}

// A container that is destroyed while engine and database are compared is no
// orphan: the log tells its end once.
func TestDestroyedWhileCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(plain)
		y.Idle("w", 2)
		idle, err := y.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		first := true
		y.RT.After("list", func(_ context.Context, _ fake.Call) error {
			if first {
				first = false
				require.NoError(t, y.Pools.DestroyContainer(t.Context(), idle[0].ID, false))
				y.Until("it to go", func() bool { return len(y.Events(activity.ContainerDestroyed)) == 1 })
			}
			return nil
		})
		<-time.After(time.Minute)
		require.False(t, first)
		require.Len(t, y.Events(activity.ContainerDestroying), 1)
		require.Len(t, y.Events(activity.ContainerDestroyed), 1)
	})
}
