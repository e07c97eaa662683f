package pool_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
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

// corrected is a workload file of another revision.
func corrected(source string) string {
	return strings.Replace(source, "[box, idle]", "[box, idle, v2]", 1)
}

// hangFirst lets the first n creations hang until they are canceled.
func hangFirst(h *flowtest.Harness, n int64) {
	var calls atomic.Int64
	h.RT.Before("create", func(ctx context.Context, _ fake.Call) error {
		if calls.Add(1) > n {
			return nil
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
}

// The creation of a container of a former revision that hangs does not delay the
// containers of the current one.
func TestHungCreationOfFormerRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		hangFirst(h, 1)
		h.Apply(poolYAML(1, 4))
		synctest.Wait()
		h.Apply(corrected(poolYAML(1, 4)))
		<-time.After(time.Second)
		synctest.Wait()
		require.Equal(t, 1, h.Count("w", pool.Idle))
	})
}

// If such creations occupy all slots of the workload, or all of its pool, they are
// canceled soon. That is no failure of the workload.
func TestHungCreationsOfFormerRevisionAreCanceled(t *testing.T) {
	for n, source := range map[int64]string{4: poolYAML(4, 10), 2: poolYAML(2, 2)} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				hangFirst(h, n)
				h.Apply(source)
				<-time.After(time.Minute)
				synctest.Wait()
				require.Zero(t, h.Count("w", pool.Destroying)+h.Count("w", pool.Destroyed), "it is the current revision")
				h.Apply(corrected(source))
				<-time.After(10 * time.Second)
				h.Pools.Wake("w")
				<-time.After(19 * time.Second)
				synctest.Wait()
				require.NotZero(t, h.Count("w", pool.Creating), "it may still serve a claim")
				require.Zero(t, h.Count("w", pool.Destroyed))
				<-time.After(2 * time.Second)
				synctest.Wait()
				require.NotZero(t, h.Count("w", pool.Idle))
				require.Empty(t, h.Events(activity.PoolWarning))
			})
		})
	}
}

// A revision that becomes current again keeps its creations.
func TestRevertedRevisionKeepsCreations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		_, unblock := h.RT.Block("create")
		defer unblock()
		h.Apply(poolYAML(1, 1))
		synctest.Wait()
		h.Apply(corrected(poolYAML(1, 1)))
		<-time.After(20 * time.Second)
		h.Apply(poolYAML(1, 1))
		<-time.After(20 * time.Second)
		h.Apply(corrected(poolYAML(1, 1)))
		<-time.After(20 * time.Second)
		h.Apply(poolYAML(1, 1))
		<-time.After(20 * time.Second)
		unblock()
		h.AwaitIdle("w", 1)
		require.Len(t, h.Events(activity.ContainerCreating), 1)
	})
}

// The current revision is tried again after a failure although the creation of a
// container of a former one hangs.
func TestRetriesWhileFormerRevisionHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		var calls atomic.Int64
		h.RT.Before("create", func(ctx context.Context, _ fake.Call) error {
			switch calls.Add(1) {
			case 1: // of the old revision
				<-ctx.Done()
				return context.Cause(ctx)
			case 2: // of the new one
				return errors.New("the engine was restarted")
			}
			return nil
		})
		h.Apply(poolYAML(1, 4))
		synctest.Wait()
		h.Apply(corrected(poolYAML(2, 4)))
		h.Until("a failure", func() bool { return len(h.Events(activity.PoolWarning)) == 1 })
		_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada", Wait: 10 * time.Second})
		require.NoError(t, err)
	})
}

// outage is a store that fails all changes of containers while it is down.
type outage struct {
	*store.DB
	down func() bool
}

func (o outage) UpdateContainer(ctx context.Context, m pool.Transition) (pool.Container, error) {
	if o.down() {
		return pool.Container{}, errOutage
	}
	return o.DB.UpdateContainer(ctx, m)
}

func (o outage) UpdateBreaker(ctx context.Context, w string, set func(*pool.Breaker) []activity.Event) error {
	if o.down() {
		return errOutage
	}
	return o.DB.UpdateBreaker(ctx, w, set)
}

// A container whose creation failed while the database was unavailable for longer
// than a write is retried is destroyed once it is available again.
func TestInterruptedCreationIsSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.NewStopped(t)
		var down atomic.Bool
		db := outage{h.DB, down.Load}
		pools := pool.New(db, h.RT, flowtest.HookRunner(h.RT, h.DB, nil), nil, slog.New(slog.DiscardHandler))
		var first atomic.Bool
		first.Store(true)
		h.RT.Before("start", func(context.Context, fake.Call) error {
			if !first.CompareAndSwap(true, false) {
				return nil
			}
			down.Store(true)
			return errors.New("broken on purpose")
		})
		h.Apply(poolYAML(1, 1))
		ctx, cancel := context.WithCancel(t.Context())
		var g errgroup.Group
		g.Go(func() error { return pools.Run(ctx) })
		defer func() { cancel(); require.NoError(t, g.Wait()) }()
		<-time.After(5 * time.Minute)
		down.Store(false)
		for range 2 {
			<-time.After(time.Minute)
			pools.Wake("w") // there is no dispatcher of events
		}
		synctest.Wait()
		require.Equal(t, 0, h.Count("w", pool.Creating), "nothing creates it any more")
		require.Equal(t, 1, h.Count("w", pool.Idle))
	})
}

// lostReply is a store whose first answer to AddContainer is lost.
type lostReply struct {
	*store.DB
	lost *atomic.Bool
}

func (l lostReply) AddContainer(ctx context.Context, c pool.Container, limit int) error {
	err := l.DB.AddContainer(ctx, c, limit)
	if err == nil && l.lost.CompareAndSwap(false, true) {
		return errOutage
	}
	return err
}

// A container that is on record although the database reported an error does not
// take the place of another one.
func TestContainerWhoseRecordSeemedToFailIsSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.NewStopped(t)
		pools := pool.New(lostReply{h.DB, new(atomic.Bool)}, h.RT, flowtest.HookRunner(h.RT, h.DB, nil), nil, slog.New(slog.DiscardHandler))
		h.Apply(poolYAML(1, 1))
		ctx, cancel := context.WithCancel(t.Context())
		var g errgroup.Group
		g.Go(func() error { return pools.Run(ctx) })
		defer func() { cancel(); require.NoError(t, g.Wait()) }()
		for range 2 {
			<-time.After(time.Minute)
			pools.Wake("w") // there is no dispatcher of events
		}
		synctest.Wait()
		require.Equal(t, 1, h.Count("w", pool.Idle))
	})
}

// A container that takes long to create is not taken for an interrupted one.
func TestSweepKeepsCreationsInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		_, unblock := h.RT.Block("create")
		defer unblock()
		h.Apply(poolYAML(1, 1))
		<-time.After(5 * time.Minute)
		unblock()
		h.AwaitIdle("w", 1)
		require.Empty(t, h.Events(activity.ContainerDestroying))
	})
}

// A panic during a creation is a failure of that pool with a backoff, and its
// container is destroyed. Other pools are filled.
func TestPanicDuringCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.NewStopped(t)
		pools := pool.New(h.DB, h.RT, flowtest.HookRunner(h.RT, h.DB, nil), nil, slog.New(slog.DiscardHandler))
		h.RT.Before("start", func(ctx context.Context, call fake.Call) error {
			if c, err := h.Pools.Container(ctx, call.ID); err != nil || c.Workload == "good" {
				return err
			}
			panic("a defect")
		})
		h.Apply(poolYAML(1, 1))
		h.Apply(strings.Replace(poolYAML(1, 1), "id: w", "id: good", 1))
		ctx, cancel := context.WithCancel(t.Context())
		var g errgroup.Group
		g.Go(func() error { return pools.Run(ctx) })
		defer func() { cancel(); require.NoError(t, g.Wait()) }()
		for range 20 {
			<-time.After(30 * time.Second)
			pools.Wake("w") // there is no dispatcher of events
		}
		require.Equal(t, 1, h.Count("good", pool.Idle))
		s, err := h.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.GreaterOrEqual(t, s.Fill.Failures, 3)
		require.Less(t, len(h.Events(activity.ContainerCreating)), 20)
		require.LessOrEqual(t, h.Count("w", pool.Creating), 1)
	})
}

// A container is kept if the engine becomes unavailable just after its creation.
func TestEngineUnavailableAfterCreate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		seen := map[string]int{}
		h.RT.Before("status", func(_ context.Context, call fake.Call) error {
			if seen[call.ID]++; seen[call.ID] == 2 { // the first is that of the health check
				return runtime.ErrUnavailable
			}
			return nil
		})
		h.Apply(poolYAML(1, 4))
		h.AwaitIdle("w", 1)
		<-time.After(time.Minute)
		synctest.Wait()
		require.Len(t, h.Events(activity.ContainerCreating), 1)
		require.Empty(t, h.Events(activity.PoolWarning))
	})
}

// A container that is claimed just after its creation, and destroyed by its claim,
// has not failed to be created.
func TestContainerClaimedAfterCreate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		seen, claimed := map[string]int{}, false
		h.RT.Before("status", func(ctx context.Context, call fake.Call) error {
			if seen[call.ID]++; seen[call.ID] < 2 || claimed {
				return nil
			}
			claimed = true
			_, err := h.DB.UpdateContainer(ctx, pool.BeginDestroy(call.ID, []pool.State{pool.Idle}, "its claim failed"))
			assert.NoError(t, err)
			return runtime.ErrNotFound
		})
		h.Apply(poolYAML(1, 4))
		h.AwaitIdle("w", 1)
		<-time.After(time.Minute)
		synctest.Wait()
		require.True(t, claimed)
		require.Len(t, h.Events(activity.ContainerCreating), 2)
		require.Empty(t, h.Events(activity.PoolWarning))
	})
}
