package pool_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

// If the main process of a container has exited, its pre_destroy hooks are
// skipped, and each is recorded as skipped.
func TestPreDestroySkippedAfterExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(basicYAML + "hooks: { pre_destroy: [{ name: a, command: [box, echo, a] }, { name: b, command: [box, echo, b] }] }\n")
		h.AwaitIdle("w", 2)
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w"})
		require.NoError(t, err)
		h.RT.Kill(idle[0].ID)
		h.Until("its removal", func() bool { return len(h.Events(activity.ContainerDestroyed)) == 1 })
		skipped := h.Events(activity.HookSkipped)
		require.Len(t, skipped, 2)
		for _, e := range skipped {
			require.Equal(t, idle[0].ID, e.Container)
			require.Contains(t, e.Message, "not running")
		}
		require.Empty(t, h.Events(activity.HookStarted))
	})
}

// A removal waits for the engine before its hooks: they are neither skipped nor
// started while the state of the container is unknown.
func TestPreDestroyWaitsForTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(basicYAML + "hooks: { pre_destroy: [{ command: [box, echo, bye] }] }\n")
		h.AwaitIdle("w", 2)
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w"})
		require.NoError(t, err)
		restore := h.RT.Break("status "+idle[0].ID, runtime.ErrUnavailable)
		require.NoError(t, h.Pools.DestroyContainer(t.Context(), idle[0].ID, false))
		<-time.After(time.Hour)
		synctest.Wait()
		require.Empty(t, h.Events(activity.HookStarted, activity.HookSkipped, activity.ContainerDestroyed))
		restore()
		h.Until("its removal", func() bool { return len(h.Events(activity.ContainerDestroyed)) == 1 })
		require.Len(t, h.Events(activity.HookCompleted), 1)
		require.Empty(t, h.Events(activity.HookSkipped))
	})
}

// If a pool is checked several times while a container is destroyed, no other
// one is evicted for the same claim.
func TestOneEvictionPerWaitingClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(poolYAML(0, 3))
		var claims []claim.Claim
		for _, tenant := range []string{"ada", "bob", "cyd"} {
			claims = append(claims, h.Claim("w", tenant))
		}
		for _, c := range claims {
			h.Release(c)
			<-time.After(time.Second)
		}
		reached, unblock := h.RT.Block("destroy")
		claimErr := make(chan error, 1)
		go func() {
			_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "dan", Wait: time.Hour})
			claimErr <- err
		}()
		<-reached
		for range 5 {
			h.Pools.Wake("w")
			synctest.Wait()
		}
		require.Equal(t, 1, h.Count("w", pool.Destroying))
		require.Equal(t, 2, h.Count("w", pool.Idle))
		unblock()
		require.NoError(t, <-claimErr)
		require.Equal(t, 2, h.Count("w", pool.Idle))
	})
}

// repeatingRuntime is a runtime that reports each exit twice.
type repeatingRuntime struct{ *fake.Runtime }

func (r repeatingRuntime) Watch(ctx context.Context, ready func(), onExit func(runtime.Exit)) error {
	return r.Runtime.Watch(ctx, ready, func(e runtime.Exit) { onExit(e); onExit(e) })
}

// The exit of a claimed container is reported once, even if the engine reports
// it again, and if engine and database are compared several times.
func TestExitReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New()
		h := flowtest.NewOn(t, repeatingRuntime{rt})
		h.Apply(basicYAML)
		c := h.Claim("w", "ada")
		rt.Kill(c.Container)
		<-time.After(10 * time.Minute)
		synctest.Wait()
		require.Len(t, h.Events(activity.ContainerDied), 1)
	})
}

// partialListRuntime is a runtime whose list omits containers.
type partialListRuntime struct {
	*fake.Runtime
	omitted sync.Map // ids
}

func (p *partialListRuntime) List(ctx context.Context) ([]runtime.Status, error) {
	all, err := p.Runtime.List(ctx)
	var some []runtime.Status
	for _, s := range all {
		if _, omitted := p.omitted.Load(s.ID); !omitted {
			some = append(some, s)
		}
	}
	return some, err
}

// A container that is not in the engine's list has exited only if its status
// confirms it.
func TestUnlistedContainerIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &partialListRuntime{Runtime: fake.New()}
		h := flowtest.NewOn(t, rt)
		h.Apply(basicYAML)
		h.AwaitIdle("w", 2)
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w"})
		require.NoError(t, err)
		restore := rt.Break("status "+idle[0].ID, runtime.ErrUnavailable)
		for _, c := range idle {
			rt.omitted.Store(c.ID, true)
		}
		<-time.After(5 * time.Minute)
		synctest.Wait()
		require.Empty(t, h.Events(activity.ContainerDied))
		restore()
		<-time.After(time.Minute)
		synctest.Wait()
		require.Empty(t, h.Events(activity.ContainerDied), "it runs")
		rt.BreakOnce("status "+idle[1].ID, runtime.ErrNotFound)
		h.Until("an exit", func() bool { return len(h.Events(activity.ContainerDied)) == 1 })
	})
}

// The node of a container stays on record after its end.
func TestNodeIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(basicYAML)
		c := h.Claim("w", "ada")
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{Discard: true})
		require.NoError(t, err)
		h.Until("its end", func() bool { return len(h.Events(activity.ContainerDestroyed)) == 1 })
		node, err := h.Pools.Catalog.Node(t.Context(), c.Container)
		require.NoError(t, err)
		require.Equal(t, fake.Node, node)
		node, err = h.Pools.Catalog.Node(t.Context(), "unknown")
		require.NoError(t, err)
		require.Empty(t, node)
	})
}

// The destruction of a container is recorded before it begins: after a crash the
// log has the reason.
func TestDestroyIsRecordedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(basicYAML)
		c := h.Claim("w", "ada")
		recordedFirst := map[string]bool{}
		h.RT.Before("destroy", func(ctx context.Context, call fake.Call) error {
			if _, before := recordedFirst[call.ID]; before {
				return nil
			}
			switch call.ID {
			case c.Container:
				k, err := h.Pools.Container(ctx, call.ID)
				recordedFirst[call.ID] = k.Health == pool.Exited
				return err
			case "unknown":
				events := h.Events(activity.ContainerDestroying)
				recordedFirst[call.ID] = len(events) == 1 && events[0].Container == "unknown"
			}
			return nil
		})
		require.NoError(t, h.Pools.DestroyContainer(t.Context(), c.Container, true))
		require.NoError(t, h.RT.Create(t.Context(), runtime.Spec{ID: "unknown", Image: "box", Command: []string{"box", "idle"}}))
		h.Until("its removal", func() bool { return len(h.Events(activity.ContainerDestroyed)) == 1 })
		require.Equal(t, map[string]bool{c.Container: true, "unknown": true}, recordedFirst)
	})
}

// A container that a killed server was creating is destroyed by the next one,
// with the reason, because its state is unknown.
func TestInterruptedCreateIsDestroyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		applied := h.Apply(basicYAML)
		h.AwaitIdle("w", 2)
		require.NoError(t, h.DB.AddContainer(t.Context(), pool.Container{
			ID: "half", Workload: "w", Revision: applied.Record.Revision, State: pool.Creating, Fence: pool.FirstFence,
		}, 10))
		h.Restart()
		h.AwaitIdle("w", 2)
		half, err := h.Pools.Container(t.Context(), "half")
		require.NoError(t, err)
		require.Equal(t, pool.Destroyed, half.State)
		require.Contains(t, half.Reason, "while it was being created")
	})
}

// The result of a check is ignored if the container changed its state during the
// check.
func TestHealthCheckDuringReleaseIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(basicYAML, "reuse: wipe", "reuse: same_tenant") +
			"healthcheck: { test: [CMD, box, echo, healthy], interval: 10s, retries: 1, start_period: 0s }\n")
		c := h.Claim("w", "ada")
		var armed atomic.Bool
		armed.Store(true)
		h.RT.Before("exec "+c.Container+" box echo healthy", func(context.Context, fake.Call) error {
			if !armed.CompareAndSwap(true, false) {
				return nil
			}
			_, err := h.DB.UpdateClaim(t.Context(), claim.Transition{ // as another server releases it
				ID: c.ID, From: []claim.State{claim.Active}, To: claim.Released,
				Container: &pool.Transition{From: []pool.State{pool.Claimed}, To: pool.Idle, Set: func(k *pool.Container) { k.Claim = "" }},
			})
			require.NoError(t, err)
			return errors.New("the check could not be run")
		})
		<-time.After(time.Minute)
		synctest.Wait()
		require.False(t, armed.Load())
		require.Empty(t, h.Events(activity.ContainerUnhealthy))
		require.Equal(t, c.Container, h.Claim("w", "ada").Container)
	})
}

// A removal that fails is retried with backoff of at most a minute.
func TestDestroyBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(basicYAML)
		h.AwaitIdle("w", 2)
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w"})
		require.NoError(t, err)
		var tries atomic.Int64
		h.RT.Before("destroy "+idle[0].ID, func(context.Context, fake.Call) error {
			tries.Add(1)
			return errors.New("the engine is confused")
		})
		require.NoError(t, h.Pools.DestroyContainer(t.Context(), idle[0].ID, false))
		<-time.After(10 * time.Minute)
		synctest.Wait()
		require.Greater(t, tries.Load(), int64(10))
		require.Less(t, tries.Load(), int64(20))
		current, err := h.Pools.Container(t.Context(), idle[0].ID)
		require.NoError(t, err)
		require.Equal(t, pool.Destroying, current.State, "it still exists")
	})
}

// A pre_destroy hook that a killed server has started is resumed by the removal
// and ended only by it.
func TestPreDestroyIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(basicYAML + "hooks: { pre_destroy: [{ name: bye, command: [box, echo, bye] }] }\n")
		h.AwaitIdle("w", 2)
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w"})
		require.NoError(t, err)
		restore := h.RT.Break("status "+idle[0].ID, runtime.ErrUnavailable) // nothing is started
		require.NoError(t, h.Pools.DestroyContainer(t.Context(), idle[0].ID, false))
		synctest.Wait()
		require.NoError(t, h.DB.RunStarted(t.Context(), hooks.Run{
			ID: "begun", Attempt: 1, Point: hooks.PreDestroy, Hook: "bye", Kind: hooks.KindCommand, Command: []string{"box"},
			Workload: "w", Container: idle[0].ID, State: hooks.Running, StartedAt: time.Now(),
		}))
		h.Restart()
		require.Empty(t, h.Events(activity.HookFailed))
		restore()
		h.Until("its removal", func() bool { return len(h.Events(activity.ContainerDestroyed)) == 1 })
		require.Len(t, h.Events(activity.HookFailed), 1)
		require.Len(t, h.Events(activity.HookStarted), 1)
	})
}

// A container that exits just before it becomes idle, unobserved by a watch, is
// not assigned.
func TestUnobservedExitBeforeIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.NewStopped(t)
		h.RT.Block("watch")
		h.Start()
		var exited atomic.Bool
		h.RT.After("status", func(_ context.Context, call fake.Call) error {
			if exited.CompareAndSwap(false, true) { // it was healthy
				h.RT.Kill(call.ID)
			}
			return nil
		})
		h.Apply(poolYAML(1, 4))
		h.Until("the exit to be detected", func() bool { return len(h.Events(activity.PoolWarning)) == 1 })
		require.Empty(t, h.Events(activity.ContainerDied), "before any comparison with the engine")
		h.AwaitIdle("w", 1)
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		require.Len(t, idle, 1)
		status, err := h.RT.Status(t.Context(), idle[0].ID)
		require.NoError(t, err)
		require.Equal(t, runtime.Running, status.State)
	})
}

// The grace period of an orphan does not depend on how often engine and database
// are compared.
func TestOrphanGraceAcrossReconciles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		require.NoError(t, h.RT.Create(t.Context(), orphanSpec("unknown")))
		h.Restart() // reconciles immediately
		for range 5 {
			<-time.After(2 * time.Second)
			h.RT.SetDown(true)
			<-time.After(time.Second)
			h.RT.SetDown(false) // reconciles again
		}
		<-time.After(2 * time.Second)
		_, err := h.RT.Status(t.Context(), "unknown")
		require.NoError(t, err)
		require.Empty(t, h.Events(activity.ContainerDestroying))
	})
}

// The event of a destruction has the state in which the container was.
func TestDestroyingHasPreviousState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.RT.BreakOnce("create", errors.New("no"))
		h.Apply(flowtest.Edit(poolYAML(1, 2), "max_size: 2", "max_size: 2, reuse: never"))
		h.AwaitIdle("w", 1)
		c := h.Claim("w", "ada")
		h.AwaitIdle("w", 1)
		h.Release(c)
		h.Until("its container to end", func() bool { return len(h.Events(activity.ContainerDestroyed)) == 2 })
		require.NoError(t, h.Pools.Delete(t.Context(), "w"))
		h.Until("the last one to end", func() bool { return len(h.Events(activity.ContainerDestroyed)) == 3 })
		var states []string
		for _, e := range h.Events(activity.ContainerDestroying) {
			var data activity.ContainerDestroyingData
			require.NoError(t, json.Unmarshal(e.Data, &data), "%+v", e)
			require.NotEmpty(t, data.Reason)
			states = append(states, data.PreviousState)
		}
		require.Equal(t, []string{"creating", "claimed", "idle"}, states)
	})
}
