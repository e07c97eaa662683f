package pool_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

// A container whose main process has ended runs no pre_destroy, and the log
// says so of each hook.
func TestPreDestroyOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(plain + "hooks: { pre_destroy: [{ name: a, command: [box, echo, a] }, { name: b, command: [box, echo, b] }] }\n")
		y.Idle("w", 2)
		idle, err := y.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w"})
		require.NoError(t, err)
		y.RT.Kill(idle[0].ID)
		y.Until("it to go", func() bool { return len(y.Events(activity.ContainerDestroyed)) == 1 })
		skipped := y.Events(activity.HookSkipped)
		require.Len(t, skipped, 2)
		for _, e := range skipped {
			require.Equal(t, idle[0].ID, e.Container)
			require.Contains(t, e.Message, "not running")
		}
		require.Empty(t, y.Events(activity.HookStarted))
	})
}

// A removal waits for the engine with its hooks: they are neither skipped nor
// begun while nobody knows whether the container runs.
func TestPreDestroyWaitsForTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(plain + "hooks: { pre_destroy: [{ command: [box, echo, bye] }] }\n")
		y.Idle("w", 2)
		idle, err := y.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w"})
		require.NoError(t, err)
		mend := y.RT.Break("status "+idle[0].ID, runtime.ErrUnavailable)
		require.NoError(t, y.Pools.DestroyContainer(t.Context(), idle[0].ID, false))
		<-time.After(time.Hour)
		require.Empty(t, y.Events(activity.HookStarted, activity.HookSkipped, activity.ContainerDestroyed))
		mend()
		y.Until("it to go", func() bool { return len(y.Events(activity.ContainerDestroyed)) == 1 })
		require.Len(t, y.Events(activity.HookCompleted), 1)
		require.Empty(t, y.Events(activity.HookSkipped))
	})
}

// However often a pool is looked at while a container leaves, no other one is
// given up for the same claim.
func TestRoomIsMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(sized(0, 3))
		var held []claim.Claim
		for _, tenant := range []string{"ada", "bob", "cyd"} {
			held = append(held, y.Claim("w", tenant))
		}
		for _, c := range held {
			y.Release(c)
			<-time.After(time.Second)
		}
		reached, unblock := y.RT.Block("destroy")
		got := make(chan error, 1)
		go func() {
			_, _, err := y.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "dan", Wait: time.Hour})
			got <- err
		}()
		<-reached
		for range 5 {
			y.Pools.Wake("w")
			synctest.Wait()
		}
		require.Equal(t, 1, y.Count("w", pool.Destroying))
		require.Equal(t, 2, y.Count("w", pool.Idle))
		unblock()
		require.NoError(t, <-got)
		require.Equal(t, 2, y.Count("w", pool.Idle))
	})
}

// A claimed container that has died is reported once, however often engine and
// database are compared.
func TestOneDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(plain)
		c := y.Claim("w", "ada")
		y.RT.Kill(c.Container)
		<-time.After(10 * time.Minute)
		require.Len(t, y.Events(activity.ContainerDied), 1)
	})
}

// partial is a runtime whose list leaves containers out.
type partial struct {
	*fake.Runtime
	without sync.Map // ids
}

func (p *partial) List(ctx context.Context) ([]runtime.Status, error) {
	all, err := p.Runtime.List(ctx)
	var some []runtime.Status
	for _, s := range all {
		if _, left := p.without.Load(s.ID); !left {
			some = append(some, s)
		}
	}
	return some, err
}

// A container that is not in the engine's list is dead only when the engine
// says so when it is asked for that one.
func TestNotListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &partial{Runtime: fake.New()}
		y := flowtest.On(t, rt)
		y.Apply(plain)
		y.Idle("w", 2)
		idle, err := y.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w"})
		require.NoError(t, err)
		mend := rt.Break("status "+idle[0].ID, runtime.ErrUnavailable)
		for _, c := range idle {
			rt.without.Store(c.ID, true)
		}
		<-time.After(5 * time.Minute)
		require.Empty(t, y.Events(activity.ContainerDied))
		mend()
		<-time.After(time.Minute)
		require.Empty(t, y.Events(activity.ContainerDied), "it runs")
		rt.BreakOnce("status "+idle[1].ID, runtime.ErrNotFound)
		y.Until("a death", func() bool { return len(y.Events(activity.ContainerDied)) == 1 })
	})
}

// What is about to happen to a container is on record before it does: after
// a crash the log says why it is gone.
func TestRecordedBeforeTheDeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(plain)
		c := y.Claim("w", "ada")
		found := map[string]bool{}
		y.RT.Before("destroy", func(ctx context.Context, call fake.Call) error {
			if _, before := found[call.ID]; before {
				return nil
			}
			switch call.ID {
			case c.Container:
				k, err := y.Pools.Container(ctx, call.ID)
				found[call.ID] = k.Health == pool.Dead
				return err
			case "unknown":
				told := y.Events(activity.ContainerDestroying)
				found[call.ID] = len(told) == 1 && told[0].Container == "unknown"
			}
			return nil
		})
		require.NoError(t, y.Pools.DestroyContainer(t.Context(), c.Container, true))
		require.NoError(t, y.RT.Create(t.Context(), runtime.Spec{ID: "unknown", Image: "box", Command: []string{"box", "idle"}}))
		y.Until("it to go", func() bool { return len(y.Events(activity.ContainerDestroyed)) == 1 })
		require.Equal(t, map[string]bool{c.Container: true, "unknown": true}, found)
	})
}

// A container that a killed server was making is given up by the next one, with
// the reason: nobody knows how far it got.
func TestHalfMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		applied := y.Apply(plain)
		y.Idle("w", 2)
		require.NoError(t, y.DB.AddContainer(t.Context(), pool.Container{
			ID: "half", Workload: "w", Revision: applied.Record.Revision, State: pool.Creating, Fence: pool.FirstFence,
		}, 10))
		y.Crash()
		y.Idle("w", 2)
		half, err := y.Pools.Container(t.Context(), "half")
		require.NoError(t, err)
		require.Equal(t, pool.Gone, half.State)
		require.Contains(t, half.Reason, "while it was being made")
	})
}

// A check that was made while a container changed hands says nothing about it.
func TestCheckDuringARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(plain, "reuse: wipe", "reuse: same_tenant", 1) +
			"healthcheck: { test: [CMD, box, echo, healthy], interval: 10s, retries: 1, start_period: 0s }\n")
		c := y.Claim("w", "ada")
		var armed atomic.Bool
		armed.Store(true)
		y.RT.Before("exec "+c.Container+" box echo healthy", func(context.Context, fake.Call) error {
			if !armed.CompareAndSwap(true, false) {
				return nil
			}
			_, err := y.DB.MoveClaim(t.Context(), claim.Move{ // as another server releases it
				ID: c.ID, From: []claim.State{claim.Active}, To: claim.Released,
				Container: &pool.Move{From: []pool.State{pool.Claimed}, To: pool.Idle, Set: func(k *pool.Container) { k.Claim = "" }},
			})
			require.NoError(t, err)
			return errors.New("the check could not be made")
		})
		<-time.After(time.Minute)
		require.False(t, armed.Load())
		require.Empty(t, y.Events(activity.ContainerUnhealthy))
		require.Equal(t, c.Container, y.Claim("w", "ada").Container)
	})
}

// A removal that fails is retried with backoff, a minute apart at most.
func TestRetriesOfRemovals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(plain)
		y.Idle("w", 2)
		idle, err := y.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w"})
		require.NoError(t, err)
		var tries atomic.Int64
		y.RT.Before("destroy "+idle[0].ID, func(context.Context, fake.Call) error {
			tries.Add(1)
			return errors.New("the engine is confused")
		})
		require.NoError(t, y.Pools.DestroyContainer(t.Context(), idle[0].ID, false))
		<-time.After(10 * time.Minute)
		require.Greater(t, tries.Load(), int64(10))
		require.Less(t, tries.Load(), int64(20))
		left, err := y.Pools.Container(t.Context(), idle[0].ID)
		require.NoError(t, err)
		require.Equal(t, pool.Destroying, left.State, "it is there still")
	})
}

// A pre_destroy that a killed server has begun is taken up by the removal, and
// ended by nobody else.
func TestPreDestroyIsTakenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(plain + "hooks: { pre_destroy: [{ name: bye, command: [box, echo, bye] }] }\n")
		y.Idle("w", 2)
		idle, err := y.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w"})
		require.NoError(t, err)
		mend := y.RT.Break("status "+idle[0].ID, runtime.ErrUnavailable) // nothing is begun
		require.NoError(t, y.Pools.DestroyContainer(t.Context(), idle[0].ID, false))
		synctest.Wait()
		require.NoError(t, y.DB.RunStarted(t.Context(), hooks.Run{
			ID: "begun", Attempt: 1, Point: hooks.PreDestroy, Hook: "bye", Action: "exec", Command: []string{"box"},
			Workload: "w", Container: idle[0].ID, State: hooks.Running, StartedAt: time.Now(),
		}))
		y.Crash()
		require.Empty(t, y.Events(activity.HookFailed))
		mend()
		y.Until("it to go", func() bool { return len(y.Events(activity.ContainerDestroyed)) == 1 })
		require.Len(t, y.Events(activity.HookFailed), 1)
		require.Len(t, y.Events(activity.HookStarted), 1)
	})
}

// A container that dies in the last moment before it is idle, and whose death
// nobody watches, is not handed out.
func TestDeathInTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.Stopped(t)
		y.RT.Block("watch")
		y.Start()
		var died atomic.Bool
		y.RT.After("status", func(_ context.Context, call fake.Call) error {
			if died.CompareAndSwap(false, true) { // it was healthy
				y.RT.Kill(call.ID)
			}
			return nil
		})
		y.Apply(sized(1, 4))
		y.Until("the death to be found", func() bool { return len(y.Events(activity.PoolWarning)) == 1 })
		require.Empty(t, y.Events(activity.ContainerDied), "before any comparison with the engine")
		y.Idle("w", 1)
		idle, err := y.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		require.Len(t, idle, 1)
		status, err := y.RT.Status(t.Context(), idle[0].ID)
		require.NoError(t, err)
		require.Equal(t, runtime.Running, status.State)
	})
}

// An orphan has all of its grace, however often engine and database are
// compared meanwhile.
func TestOrphanGraceOverComparisons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		require.NoError(t, y.RT.Create(t.Context(), orphanSpec("unknown")))
		y.Crash() // compares at once
		for range 5 {
			<-time.After(2 * time.Second)
			y.RT.SetDown(true)
			<-time.After(time.Second)
			y.RT.SetDown(false) // compares again
		}
		<-time.After(2 * time.Second)
		_, err := y.RT.Status(t.Context(), "unknown")
		require.NoError(t, err)
		require.Empty(t, y.Events(activity.ContainerDestroying))
	})
}
