package pool_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/store"
)

// A program that ends soon after it was started is as broken as an image that
// is not there: no hot loop, and the pool says why.
func TestShortLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.RT.After("start", func(_ context.Context, call fake.Call) error {
			time.AfterFunc(100*time.Millisecond, func() { y.RT.Kill(call.ID) })
			return nil
		})
		y.Apply(plain)
		<-time.After(10 * time.Minute)
		require.Less(t, len(y.Events(activity.ContainerCreating)), 45)
		status, err := y.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Equal(t, pool.FillFailing, status.Fill.State)
		require.Contains(t, status.Fill.LastError, "exit code 137")
	})
}

// A container that dies in the moment before it is idle is not handed out.
func TestDeathBeforeIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		first := true
		y.RT.After("baseline", func(_ context.Context, call fake.Call) error {
			if first {
				first = false
				y.RT.Kill(call.ID)
			}
			return nil
		})
		y.Apply(strings.Replace(plain, "min_idle: 2", "min_idle: 1", 1))
		y.Until("the death to be found", func() bool { return len(y.Events(activity.PoolWarning)) == 1 })
		y.Idle("w", 1)
		there, err := y.RT.List(t.Context())
		require.NoError(t, err)
		require.Len(t, there, 1)
		require.Equal(t, runtime.Running, there[0].State)
	})
}

// Engine calls that take for ever end, count against their workload, and leave
// room for others.
func TestHangingCreates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.RT.Before("create", func(ctx context.Context, call fake.Call) error {
			c, err := y.Pools.Container(ctx, call.ID)
			if err != nil || c.Workload != "w" {
				return err
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		y.Apply(strings.Replace(plain, "min_idle: 2, max_size: 4", "min_idle: 8, max_size: 8", 1))
		synctest.Wait()
		y.Apply(strings.Replace(plain, "id: w", "id: v", 1))
		y.Idle("v", 2)
		<-time.After(20 * time.Minute)
		status, err := y.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Contains(t, status.Fill.LastError, "it took longer than 15m")
	})
}

// Slow pre_destroy hooks of one workload do not hold up another's removals.
func TestSlowRemovals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(plain, "min_idle: 2, max_size: 4", "min_idle: 20, max_size: 20", 1) +
			"hooks: { pre_destroy: [{ command: [box, hang], timeout: 5m }] }\n")
		y.Apply(strings.Replace(plain, "id: w", "id: v", 1))
		y.Idle("w", 20)
		y.Idle("v", 2)
		for _, id := range []string{"w", "v"} {
			_, err := y.Pools.Drain(t.Context(), id)
			require.NoError(t, err)
		}
		begin := time.Now()
		y.Idle("v", 0)
		require.Less(t, time.Since(begin), time.Second)
	})
}

// A container that fell ill while it was released does not stay in the pool.
func TestIllWhileReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(plain, "min_idle: 2, max_size: 4", "min_idle: 1, max_size: 1", 1))
		c := y.Claim("w", "ada")
		y.RT.After("restart", func(ctx context.Context, call fake.Call) error {
			_, err := y.DB.MoveContainer(ctx, pool.Move{
				ID: call.ID, From: []pool.State{pool.Claimed}, To: pool.Claimed,
				Set: func(c *pool.Container) { c.Health = pool.Unhealthy },
			})
			return err
		})
		y.Release(c)
		y.Until("another to take its place", func() bool {
			k, err := y.Pools.Container(t.Context(), c.Container)
			require.NoError(t, err)
			return k.State == pool.Gone && y.Count("w", pool.Idle) == 1
		})
	})
}

// A workload that starts slowly has its start period after every restart.
func TestSlowStarter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		started := map[string]time.Time{}
		note := func(_ context.Context, call fake.Call) error { started[call.ID] = time.Now(); return nil }
		y.RT.After("start", note)
		y.RT.After("restart", note)
		y.RT.Program("app", func(context.Context, *fake.Proc) int { return fake.Park })
		y.RT.Program("probe", func(context.Context, *fake.Proc) int {
			for _, at := range started {
				if time.Since(at) < 30*time.Second {
					return 1
				}
			}
			return 0
		})
		y.Apply("id: w\nimage: box\ncommand: [app]\npool: { min_idle: 1, max_size: 1, reuse: wipe }\n" +
			"healthcheck: { test: [CMD, probe], interval: 5s, retries: 3, start_period: 60s }\n")
		y.Idle("w", 1)
		c := y.Claim("w", "ada")
		y.Release(c)
		begin := time.Now()
		again := y.Claim("w", "ada")
		require.Equal(t, c.Container, again.Container)
		require.GreaterOrEqual(t, time.Since(begin), 29*time.Second, "it is not handed out before it is healthy")
		require.Empty(t, y.Events(activity.ContainerUnhealthy))
	})
}

// Deleting a workload and applying it again in the same moment leaves it
// there, and changes that come together are all made.
func TestChangesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(plain)
		y.Idle("w", 2)
		var g errgroup.Group
		for i := range 20 {
			g.Go(func() error {
				if i%2 == 0 {
					return y.Pools.Delete(t.Context(), "w")
				}
				_, err := y.Pools.Apply(t.Context(), []byte(plain), "w.yaml", "")
				return err
			})
		}
		err := g.Wait()
		if err != nil {
			require.ErrorIs(t, err, pool.ErrNoWorkload)
		}
		y.Apply(plain)
		y.Idle("w", 2)
		require.Equal(t, claim.Active, y.Claim("w", "ada").State)
	})
}

// An engine that is away at the start, or goes away, loses nothing: what it
// could not do is done when it is back.
func TestEngineAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.Stopped(t)
		y.RT.SetDown(true)
		y.Start()
		y.Apply(plain)
		<-time.After(time.Minute)
		status, err := y.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Contains(t, status.Fill.LastError, runtime.ErrUnavailable.Error())
		y.RT.SetDown(false)
		y.Idle("w", 2)
		there, err := y.RT.List(t.Context())
		require.NoError(t, err)
		require.Len(t, there, 2)

		y.RT.SetDown(true)
		require.NoError(t, y.Pools.DestroyContainer(t.Context(), there[0].ID, false))
		y.RT.Kill(there[1].ID) // unseen
		<-time.After(time.Minute)
		y.RT.SetDown(false)
		y.Until("both to be replaced", func() bool {
			return len(y.Events(activity.ContainerDestroyed)) >= 2 && y.Count("w", pool.Idle) == 2
		})
	})
}

// A server that was killed finds its containers again, destroys what was half
// made, removes what it made and no longer knows, and touches nothing else.
func TestCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		ctx := t.Context()
		y.Apply(plain)
		y.Idle("w", 2)
		c := y.Claim("w", "ada")
		y.Idle("w", 2)
		y.RT.Foreign("somebody-elses")
		require.NoError(t, y.RT.Create(ctx, runtime.Spec{ID: "forgotten", Image: "box", Command: []string{"box", "idle"}}))
		y.Crash()
		y.Idle("w", 2)
		y.Until("the forgotten to go", func() bool { return len(y.Events(activity.ContainerDestroyed)) == 1 })
		_, err := y.RT.Status(ctx, "forgotten")
		require.ErrorIs(t, err, runtime.ErrNotFound)
		again, created, err := y.Claims.Claim(ctx, claim.Request{Workload: "w", Tenant: "ada"})
		require.NoError(t, err)
		require.False(t, created)
		require.Equal(t, c.ID, again.ID)
		require.Equal(t, c.Container, again.Container)
		require.Empty(t, y.Events(activity.ContainerDied))
	})
}

// pre_destroy runs once, whatever the engine does, and never keeps a container.
func TestPreDestroyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(plain + "hooks: { pre_destroy: [{ command: [box, exit, '1'] }] }\n")
		y.Idle("w", 2)
		mend := y.RT.Break("destroy", runtime.ErrUnavailable)
		idle, err := y.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w"})
		require.NoError(t, err)
		require.NoError(t, y.Pools.DestroyContainer(t.Context(), idle[0].ID, false))
		<-time.After(time.Minute)
		mend()
		y.Idle("w", 2)
		require.Len(t, y.Events(activity.HookStarted), 1)
		require.Len(t, y.Events(activity.HookFailed), 1)
		require.Len(t, y.Events(activity.ContainerDestroyed), 1)
	})
}

// A server that is told to stop lets a pre_destroy hook end: cut off it would
// be killed, and never run again.
func TestPreDestroyIsNotCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(plain + "hooks: { pre_destroy: [{ command: [sleep, 5s] }] }\n")
		y.Idle("w", 2)
		idle, err := y.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w"})
		require.NoError(t, err)
		require.NoError(t, y.Pools.DestroyContainer(t.Context(), idle[0].ID, false))
		y.Until("the hook to begin", func() bool { return len(y.Events(activity.HookStarted)) == 1 })
		y.Crash()
		of := func(what activity.Type) (n int) {
			for _, e := range y.Events(what) {
				if e.Container == idle[0].ID {
					n++
				}
			}
			return n
		}
		y.Until("it to go", func() bool { return of(activity.ContainerDestroyed) == 1 })
		require.Equal(t, 1, of(activity.HookStarted))
		require.Equal(t, 1, of(activity.HookCompleted))
	})
}

// A workload that is applied from another folder takes its seeds from there,
// though its revision is the same.
func TestSeedsMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		for _, dir := range []string{t.TempDir(), t.TempDir()} {
			applied, err := y.Pools.Apply(t.Context(), []byte(plain), "w.yaml", dir)
			require.NoError(t, err)
			_, r, err := y.Pools.Catalog.Revision(t.Context(), "w", applied.Record.Revision)
			require.NoError(t, err)
			require.Equal(t, dir, r.Dir)
		}
	})
}

// meddled is storage in which something happens while a revision is read.
type meddled struct {
	*store.DB
	during func()
}

func (m meddled) Revision(ctx context.Context, id, revision string) (pool.Record, error) {
	r, err := m.DB.Revision(ctx, id, revision)
	m.during()
	return r, err
}

// What was read before a workload was applied from another folder is not kept
// for those who ask afterwards.
func TestSeedsMoveWhileTheyAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.Stopped(t)
		dirs := []string{t.TempDir(), t.TempDir()}
		applied, err := y.Pools.Apply(t.Context(), []byte(plain), "w.yaml", dirs[0])
		require.NoError(t, err)
		var c *pool.Catalog
		move := sync.OnceFunc(func() {
			_, err := y.Pools.Apply(t.Context(), []byte(plain), "w.yaml", dirs[1])
			require.NoError(t, err)
			c.Forget("w")
		})
		c = pool.NewCatalog(meddled{y.DB, move})
		for _, dir := range dirs {
			_, r, err := c.Revision(t.Context(), "w", applied.Record.Revision)
			require.NoError(t, err)
			require.Equal(t, dir, r.Dir)
		}
	})
}

// An engine that goes away in the moment after a container was made does not
// cost that container.
func TestEngineAwayAfterCreate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		seen := map[string]int{}
		y.RT.Before("status", func(_ context.Context, call fake.Call) error {
			if seen[call.ID]++; seen[call.ID] == 2 { // the first is of the health
				return runtime.ErrUnavailable
			}
			return nil
		})
		y.Apply(sized(1, 4))
		y.Idle("w", 1)
		<-time.After(time.Minute)
		require.Len(t, y.Events(activity.ContainerCreating), 1)
		require.Empty(t, y.Events(activity.PoolWarning))
	})
}
