package pool_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/store"
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

// A container that begins to terminate while it is created is not given out, and replaced
// without a backoff, since that is not a failure of its workload.
func TestTerminatingDuringCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		var first string
		h.RT.Before("exec", func(_ context.Context, call fake.Call) error {
			if first == "" {
				first = call.ID
				h.RT.SetCondition(first, runtime.Terminating)
				synctest.Wait() // it is recorded
			}
			return nil
		})
		h.Apply("id: w\nimage: box\npool: { min_idle: 1, max_size: 2 }\nhooks: { post_create: [{ command: [box, echo, hi] }] }\n")
		h.AwaitIdle("w", 1)
		k, err := h.Pools.Container(t.Context(), first)
		require.NoError(t, err)
		require.Contains(t, []pool.State{pool.Destroying, pool.Destroyed}, k.State)
		for _, e := range h.Events(activity.ContainerCreated) {
			require.NotEqual(t, first, e.Container, "it was never idle")
		}
		require.Empty(t, h.Events(activity.PoolWarning))
	})
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

// A container that cannot be reached makes no room, so it is not destroyed for that. A
// claim that waits has it, or its room, when it responds again.
func TestUnreachableContainersMakeNoRoom(t *testing.T) {
	for name, edits := range map[string][]string{
		"never claimed":       nil,
		"kept for its tenant": {"reuse: wipe", "reuse: same_tenant"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(flowtest.Edit(basicYAML, append(edits, "max_size: 4", "max_size: 2")...))
				h.AwaitIdle("w", 2)
				if edits != nil {
					a, b := h.Claim("w", "ada"), h.Claim("w", "bob")
					h.Release(a)
					h.Release(b)
				}
				idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
				require.NoError(t, err)
				for _, c := range idle {
					h.RT.SetCondition(c.ID, runtime.Unreachable)
				}
				synctest.Wait()
				claimed := make(chan error)
				go func() {
					_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "eve", Wait: time.Hour})
					claimed <- err
				}()
				<-time.After(time.Minute)
				require.Equal(t, 2, h.Count("w", pool.Idle))
				for _, c := range idle {
					h.RT.SetCondition(c.ID, "")
				}
				require.NoError(t, <-claimed)
			})
		})
	}
}

// If several containers are kept for their tenants, a reachable container makes room.
func TestReachableContainerMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(basicYAML, "reuse: wipe", "reuse: same_tenant", "min_idle: 2, max_size: 4", "min_idle: 0, max_size: 2"))
		ada, bob := h.Claim("w", "ada"), h.Claim("w", "bob")
		h.Release(ada) // idle for longer
		<-time.After(time.Second)
		h.Release(bob)
		h.RT.SetCondition(ada.Container, runtime.Unreachable)
		synctest.Wait()
		h.Claim("w", "eve")
		k, err := h.Pools.Container(t.Context(), ada.Container)
		require.NoError(t, err)
		require.Equal(t, pool.Idle, k.State)
	})
}

// A container that could not be reached is decided upon when its machine responds: it
// is usable, which has an event for all servers, or never again, and destroyed.
func TestReachedContainer(t *testing.T) {
	for _, fault := range []error{nil, runtime.ErrTainted, runtime.ErrNotRunning} {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(basicYAML)
				h.AwaitIdle("w", 2)
				idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
				require.NoError(t, err)
				lost := idle[0].ID
				h.RT.SetCondition(lost, runtime.Unreachable)
				synctest.Wait()
				h.RT.Before("reach "+lost, func(ctx context.Context, _ fake.Call) error {
					if end, isBounded := ctx.Deadline(); isBounded && time.Until(end) < time.Minute {
						return runtime.ErrUnavailable // a backend could not decide
					}
					return fault
				})
				h.RT.SetCondition(lost, "")
				<-time.After(time.Minute)
				k, err := h.Pools.Container(t.Context(), lost)
				require.NoError(t, err)
				require.Equal(t, fault == nil, k.State == pool.Idle && k.Health == pool.Healthy)
				require.Equal(t, fault == nil, len(h.Events(activity.ContainerReached)) == 1)
				require.Equal(t, fault != nil, k.State == pool.Destroyed)
			})
		})
	}
}

// conflictingStore is a store in which the first changes to a terminating container
// meet others.
type conflictingStore struct {
	*store.DB
	conflicts *atomic.Int64 // how many
}

func (s conflictingStore) UpdateContainer(ctx context.Context, m pool.Transition) (pool.Container, error) {
	if len(m.Events) > 0 && m.Events[0].Type == activity.ContainerTerminating && s.conflicts.Add(-1) >= 0 {
		return pool.Container{}, pool.ErrConflict
	}
	return s.DB.UpdateContainer(ctx, m)
}

// A container that begins to terminate while it is claimed and returned is recorded
// at once, and not by a later comparison.
func TestTerminatingIsRecordedDespiteConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.NewStopped(t)
		db := conflictingStore{h.DB, new(atomic.Int64)}
		db.conflicts.Store(2)
		pools := pool.New(db, h.RT, flowtest.HookRunner(h.RT, h.DB, nil), nil, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- pools.Run(ctx) }()
		h.Apply(basicYAML)
		pools.WakeFiller("w")
		h.AwaitIdle("w", 2)
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		h.RT.SetCondition(idle[0].ID, runtime.Terminating)
		<-time.After(5 * time.Second)
		require.Len(t, h.Events(activity.ContainerTerminating), 1)
		cancel()
		require.NoError(t, <-ended)
	})
}
