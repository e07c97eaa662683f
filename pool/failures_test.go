package pool_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/store"
)

// A program that exits soon after its start is as broken as a missing image:
// creation is retried with backoff, and the pool reports the reason.
func TestCrashLoopBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.RT.After("start", func(_ context.Context, call fake.Call) error {
			time.AfterFunc(100*time.Millisecond, func() { h.RT.Kill(call.ID) })
			return nil
		})
		h.Apply(basicYAML)
		<-time.After(10 * time.Minute)
		synctest.Wait()
		require.Less(t, len(h.Events(activity.ContainerCreating)), 45)
		status, err := h.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Equal(t, pool.FillFailing, status.Fill.State)
		require.Contains(t, status.Fill.LastError, "exited with code 137")
	})
}

// A container that exits just before it becomes idle is not assigned.
func TestExitBeforeIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		first := true
		h.RT.After("baseline", func(_ context.Context, call fake.Call) error {
			if first {
				first = false
				h.RT.Kill(call.ID)
			}
			return nil
		})
		h.Apply(flowtest.Edit(basicYAML, "min_idle: 2", "min_idle: 1"))
		h.Until("the exit to be detected", func() bool { return len(h.Events(activity.PoolWarning)) == 1 })
		h.AwaitIdle("w", 1)
		listed, err := h.RT.List(t.Context())
		require.NoError(t, err)
		require.Len(t, listed, 1)
		require.Equal(t, runtime.Running, listed[0].State)
	})
}

// Engine calls that hang are canceled, count as failures of their workload, and
// do not use the slots of others.
func TestCreateTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.RT.Before("create", func(ctx context.Context, call fake.Call) error {
			c, err := h.Pools.Container(ctx, call.ID)
			if err != nil || c.Workload != "w" {
				return err
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		h.Apply(flowtest.Edit(basicYAML, "min_idle: 2, max_size: 4", "min_idle: 8, max_size: 8"))
		synctest.Wait()
		h.Apply(flowtest.Edit(basicYAML, "id: w", "id: v"))
		h.AwaitIdle("v", 2)
		<-time.After(20 * time.Minute)
		status, err := h.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Contains(t, status.Fill.LastError, "it took longer than 15m")
	})
}

// Slow pre_destroy hooks of one workload do not block another's removals.
func TestSlowPreDestroyDoesNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(basicYAML, "min_idle: 2, max_size: 4", "min_idle: 20, max_size: 20") +
			"hooks: { pre_destroy: [{ command: [box, hang], timeout: 5m }] }\n")
		h.Apply(flowtest.Edit(basicYAML, "id: w", "id: v"))
		h.AwaitIdle("w", 20)
		h.AwaitIdle("v", 2)
		for _, id := range []string{"w", "v"} {
			_, err := h.Pools.Drain(t.Context(), id)
			require.NoError(t, err)
		}
		start := time.Now()
		h.AwaitIdle("v", 0)
		require.Less(t, time.Since(start), time.Second)
	})
}

// A container that becomes unhealthy during its release does not return to the
// pool.
func TestUnhealthyDuringReleaseIsDestroyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(basicYAML, "min_idle: 2, max_size: 4", "min_idle: 1, max_size: 1"))
		c := h.Claim("w", "ada")
		h.RT.After("restart", func(ctx context.Context, call fake.Call) error {
			_, err := h.DB.UpdateContainer(ctx, pool.Transition{
				ID: call.ID, From: []pool.State{pool.Claimed}, To: pool.Claimed,
				Set: func(c *pool.Container) { c.Health = pool.Unhealthy },
			})
			return err
		})
		h.Release(c)
		h.Until("its replacement", func() bool {
			k, err := h.Pools.Container(t.Context(), c.Container)
			require.NoError(t, err)
			return k.State == pool.Destroyed && h.Count("w", pool.Idle) == 1
		})
	})
}

// The start period of a slow workload applies after every restart.
func TestStartPeriodAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		started := map[string]time.Time{}
		recordStart := func(_ context.Context, call fake.Call) error { started[call.ID] = time.Now(); return nil }
		h.RT.After("start", recordStart)
		h.RT.After("restart", recordStart)
		h.RT.AddProgram("app", func(context.Context, *fake.Proc) int { return fake.Park })
		h.RT.AddProgram("probe", func(context.Context, *fake.Proc) int {
			for _, at := range started {
				if time.Since(at) < 30*time.Second {
					return 1
				}
			}
			return 0
		})
		h.Apply("id: w\nimage: box\ncommand: [app]\npool: { min_idle: 1, max_size: 1, reuse: wipe }\n" +
			"healthcheck: { test: [CMD, probe], interval: 5s, retries: 3, start_period: 60s }\n")
		h.AwaitIdle("w", 1)
		c := h.Claim("w", "ada")
		h.Release(c)
		start := time.Now()
		again := h.Claim("w", "ada")
		require.Equal(t, c.Container, again.Container)
		require.GreaterOrEqual(t, time.Since(start), 29*time.Second, "it is not assigned before it is healthy")
		require.Empty(t, h.Events(activity.ContainerUnhealthy))
	})
}

// A workload that is deleted and applied concurrently can be applied again, and
// concurrent changes all succeed.
func TestConcurrentApplyAndDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(basicYAML)
		h.AwaitIdle("w", 2)
		var g errgroup.Group
		for i := range 20 {
			g.Go(func() error {
				if i%2 == 0 {
					return h.Pools.Delete(t.Context(), "w")
				}
				_, err := h.Pools.Apply(t.Context(), []byte(basicYAML), "w.yaml", "")
				return err
			})
		}
		err := g.Wait()
		if err != nil {
			require.ErrorIs(t, err, pool.ErrWorkloadNotFound)
		}
		h.Apply(basicYAML)
		h.AwaitIdle("w", 2)
		require.Equal(t, claim.Active, h.Claim("w", "ada").State)
	})
}

// If the engine is unavailable at the start, or becomes unavailable, nothing is
// lost: the work is done when it is available again.
func TestEngineUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.NewStopped(t)
		h.RT.SetDown(true)
		h.Start()
		h.Apply(basicYAML)
		<-time.After(time.Minute)
		status, err := h.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Contains(t, status.Fill.LastError, runtime.ErrUnavailable.Error())
		h.RT.SetDown(false)
		h.AwaitIdle("w", 2)
		listed, err := h.RT.List(t.Context())
		require.NoError(t, err)
		require.Len(t, listed, 2)

		h.RT.SetDown(true)
		require.NoError(t, h.Pools.DestroyContainer(t.Context(), listed[0].ID, false))
		h.RT.Kill(listed[1].ID) // not observed
		<-time.After(time.Minute)
		h.RT.SetDown(false)
		h.Until("both to be replaced", func() bool {
			return len(h.Events(activity.ContainerDestroyed)) >= 2 && h.Count("w", pool.Idle) == 2
		})
	})
}

// A server that was killed keeps its containers, destroys those whose creation
// was interrupted, removes those without a record, and changes no others.
func TestRestartAfterCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		ctx := t.Context()
		h.Apply(basicYAML)
		h.AwaitIdle("w", 2)
		c := h.Claim("w", "ada")
		h.AwaitIdle("w", 2)
		h.RT.AddForeign("foreign")
		require.NoError(t, h.RT.Create(ctx, runtime.Spec{ID: "forgotten", Image: "box", Command: []string{"box", "idle"}}))
		h.Restart()
		h.AwaitIdle("w", 2)
		h.Until("the forgotten one to be removed", func() bool { return len(h.Events(activity.ContainerDestroyed)) == 1 })
		_, err := h.RT.Status(ctx, "forgotten")
		require.ErrorIs(t, err, runtime.ErrNotFound)
		again, created, err := h.Claims.Claim(ctx, claim.Request{Workload: "w", Tenant: "ada"})
		require.NoError(t, err)
		require.False(t, created)
		require.Equal(t, c.ID, again.ID)
		require.Equal(t, c.Container, again.Container)
		require.Empty(t, h.Events(activity.ContainerDied))
	})
}

// pre_destroy runs once, even if the engine fails, and never keeps a container.
func TestPreDestroyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(basicYAML + "hooks: { pre_destroy: [{ command: [box, exit, '1'] }] }\n")
		h.AwaitIdle("w", 2)
		restore := h.RT.Break("destroy", runtime.ErrUnavailable)
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w"})
		require.NoError(t, err)
		require.NoError(t, h.Pools.DestroyContainer(t.Context(), idle[0].ID, false))
		<-time.After(time.Minute)
		restore()
		h.AwaitIdle("w", 2)
		require.Len(t, h.Events(activity.HookStarted), 1)
		require.Len(t, h.Events(activity.HookFailed), 1)
		require.Len(t, h.Events(activity.ContainerDestroyed), 1)
	})
}

// A server that shuts down lets a pre_destroy hook end: if it were canceled, it
// would be killed and never run again.
func TestPreDestroySurvivesShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(basicYAML + "hooks: { pre_destroy: [{ command: [sleep, 5s] }] }\n")
		h.AwaitIdle("w", 2)
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w"})
		require.NoError(t, err)
		require.NoError(t, h.Pools.DestroyContainer(t.Context(), idle[0].ID, false))
		h.Until("the hook to start", func() bool { return len(h.Events(activity.HookStarted)) == 1 })
		h.Restart()
		count := func(what activity.Type) (n int) {
			for _, e := range h.Events(what) {
				if e.Container == idle[0].ID {
					n++
				}
			}
			return n
		}
		h.Until("its removal", func() bool { return count(activity.ContainerDestroyed) == 1 })
		require.Equal(t, 1, count(activity.HookStarted))
		require.Equal(t, 1, count(activity.HookCompleted))
	})
}

// A workload that is applied from another directory uses the seeds of that
// directory, although its revision is the same.
func TestSeedDirChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		for _, dir := range []string{t.TempDir(), t.TempDir()} {
			applied, err := h.Pools.Apply(t.Context(), []byte(basicYAML), "w.yaml", dir)
			require.NoError(t, err)
			_, r, err := h.Pools.Catalog.Revision(t.Context(), "w", applied.Record.Revision)
			require.NoError(t, err)
			require.Equal(t, dir, r.Dir)
		}
	})
}

// storeHook is a store that calls a function while a revision is read.
type storeHook struct {
	*store.DB
	onRevision func()
}

func (m storeHook) Revision(ctx context.Context, id, revision string) (pool.Record, error) {
	r, err := m.DB.Revision(ctx, id, revision)
	m.onRevision()
	return r, err
}

// A revision that was read before the workload was applied from another
// directory is not cached.
func TestSeedDirChangeDuringRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.NewStopped(t)
		dirs := []string{t.TempDir(), t.TempDir()}
		applied, err := h.Pools.Apply(t.Context(), []byte(basicYAML), "w.yaml", dirs[0])
		require.NoError(t, err)
		var c *pool.Catalog
		applyOther := sync.OnceFunc(func() {
			_, err := h.Pools.Apply(t.Context(), []byte(basicYAML), "w.yaml", dirs[1])
			require.NoError(t, err)
			c.Invalidate("w")
		})
		c = pool.NewCatalog(storeHook{h.DB, applyOther})
		for _, dir := range dirs {
			_, r, err := c.Revision(t.Context(), "w", applied.Record.Revision)
			require.NoError(t, err)
			require.Equal(t, dir, r.Dir)
		}
	})
}

// Failures to create containers survive a restart, which does not try again
// earlier, and another server on the database shows them.
func TestFailuresSurviveRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		restore := h.RT.Break("create", errors.New("no such image"))
		h.Apply(basicYAML)
		var before pool.Status
		h.Until("failures", func() (ok bool) {
			var err error
			before, err = h.Pools.Status(t.Context(), "w")
			require.NoError(t, err)
			return before.Fill.State == pool.FillFailing
		})
		synctest.Wait()
		peer := pool.New(h.DB, h.RT, flowtest.HookRunner(h.RT, h.DB, nil), nil, slog.New(slog.DiscardHandler))
		shown, err := peer.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Equal(t, before.Fill, shown.Fill)

		tries := len(h.Events(activity.ContainerCreating))
		h.Restart()
		after, err := h.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Equal(t, before.Fill, after.Fill)
		<-time.After(time.Until(*after.Fill.NextTry) - time.Second)
		synctest.Wait()
		require.Len(t, h.Events(activity.ContainerCreating), tries)
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.Len(t, h.Events(activity.ContainerCreating), tries+1)
		restore()
		h.AwaitIdle("w", 2)
		recovered, err := h.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Equal(t, pool.FillStatus{State: pool.FillIdle}, recovered.Fill)
		require.Len(t, h.Events(activity.PoolRecovered), 1)
	})
}
