package pool_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/dbtest"
	"github.com/hostler/hostler/store/storetest"
)

// removedFirst is a store whose first AddContainer comes after the removal of the
// workload, and before what follows.
type removedFirst struct {
	*store.DB
	remove, follow func(workload string)
}

func (r removedFirst) AddContainer(ctx context.Context, c pool.Container, limit int) error {
	r.remove(c.Workload)
	defer r.follow(c.Workload)
	return r.DB.AddContainer(ctx, c, limit)
}

// runRemovedFirst runs pools for five minutes whose workload is removed when its first
// container is about to be recorded, and returns what was logged.
func runRemovedFirst(t *testing.T, h *flowtest.Harness, follow func(pools *pool.Pools)) string {
	t.Helper()
	return runReplacedFirst(t, h, func() {}, follow)
}

// runReplacedFirst runs them with replace between the removal and the record.
func runReplacedFirst(t *testing.T, h *flowtest.Harness, replace func(), follow func(pools *pool.Pools)) string {
	t.Helper()
	var pools *pool.Pools
	var removed, followed sync.Once
	db := removedFirst{h.DB, func(id string) {
		removed.Do(func() {
			assert.NoError(t, h.Pools.Delete(t.Context(), id))
			assert.NoError(t, h.DB.RemoveWorkload(t.Context(), id))
			replace()
		})
	}, func(string) { followed.Do(func() { follow(pools) }) }}
	var log strings.Builder
	handler := slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})
	pools = pool.New(db, h.RT, flowtest.HookRunner(h.RT, h.DB, nil), nil, slog.New(handler))
	h.Apply(poolYAML(1, 4))
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return pools.Run(ctx) })
	<-time.After(5 * time.Minute)
	cancel()
	require.NoError(t, g.Wait())
	return log.String()
}

// A workload that is removed when its container is about to be recorded gets none.
// That is no failure.
func TestWorkloadRemovedBeforeItsContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.NewStopped(t)
		log := runRemovedFirst(t, h, func(*pool.Pools) {})
		_, err := h.DB.Workload(t.Context(), "w")
		require.ErrorIs(t, err, pool.ErrWorkloadNotFound, "it was removed")
		all, err := h.DB.Containers(t.Context(), pool.ContainerFilter{States: pool.States()})
		require.NoError(t, err)
		require.Empty(t, all)
		require.NotContains(t, strings.Join(h.RT.Calls(), " "), "create")
		require.Empty(t, log)
	})
}

// If the workload is applied again before the refusal is known, its pool is filled.
func TestWorkloadAppliedAgainBeforeTheRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.NewStopped(t)
		log := runRemovedFirst(t, h, func(pools *pool.Pools) {
			h.Apply(poolYAML(1, 4))
			pools.Wake("w") // as the event does
			<-time.After(time.Second)
		})
		require.Equal(t, 1, h.Count("w", pool.Idle))
		require.Empty(t, log)
	})
}

// If another file was applied by then, no container of the former one is created: its
// hooks would be lost. The pool is filled with the new one's, without an event.
func TestWorkloadReplacedBeforeItsContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.NewStopped(t)
		var revision string
		log := runReplacedFirst(t, h, func() {
			revision = h.Apply(corrected(poolYAML(1, 4))).Record.Revision
		}, func(*pool.Pools) {})
		all, err := h.DB.Containers(t.Context(), pool.ContainerFilter{States: pool.States()})
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, revision, all[0].Revision)
		require.Equal(t, pool.Idle, all[0].State)
		require.Empty(t, log)
	})
}

// An idle container that an older server has added after the removal of its workload
// is destroyed, with the reason on record, also if the server is killed in between.
// No other is.
func TestContainerOfRemovedWorkloadIsSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, rt := dbtest.Path(t), fake.New()
		db, err := store.Open(t.Context(), path)
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Close()) }()
		db.SetProtocols(rt.Protocols())
		run := func() (stop func()) {
			pools := pool.New(db, rt, flowtest.HookRunner(rt, db, nil), nil, slog.New(slog.DiscardHandler))
			for _, id := range []string{"w", "kept"} {
				if _, err := db.Workload(t.Context(), id); err != nil {
					_, err = pools.Apply(t.Context(), []byte(strings.Replace(poolYAML(1, 1), "id: w", "id: "+id, 1)), id, "")
					require.NoError(t, err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			var g errgroup.Group
			g.Go(func() error { return pools.Run(ctx) })
			return func() { cancel(); require.NoError(t, g.Wait()) }
		}
		stop := run()
		<-time.After(10 * time.Second)
		leaked, err := db.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		require.Len(t, leaked, 1)
		storetest.LoseWorkload(t, path, "w")
		<-time.After(time.Minute) // without a dispatcher of events, nothing wakes the reaper
		stop()
		c, err := db.Container(t.Context(), leaked[0].ID)
		require.NoError(t, err)
		require.Equal(t, pool.Destroying, c.State)
		require.Equal(t, "its workload was removed before it was added", c.Reason)
		_, err = rt.Status(t.Context(), c.ID)
		require.NoError(t, err)

		require.NoError(t, db.PutWorkload(t.Context(), pool.Record{ID: "w", Draining: true})) // of another file
		stop = run()
		<-time.After(time.Minute)
		stop()
		c, err = db.Container(t.Context(), c.ID)
		require.NoError(t, err)
		require.Equal(t, pool.Destroyed, c.State)
		_, err = rt.Status(t.Context(), c.ID)
		require.ErrorIs(t, err, runtime.ErrNotFound)
		page, err := db.Events(t.Context(), activity.Filter{Types: []activity.Type{activity.ContainerDestroying}}, 0, 0)
		require.NoError(t, err)
		require.Len(t, page.Items, 1, "no other container is destroyed")
		require.Equal(t, "destroying container: its workload was removed before it was added", page.Items[0].Message)
		require.JSONEq(t, `{"previous_state":"idle","reason":"its workload was removed before it was added"}`, string(page.Items[0].Data))
	})
}

// removedLate is a store whose workload is removed during the second assessment of
// its pool, which is that of its creation, and that counts its reads.
type removedLate struct {
	*store.DB
	remove func()
	reads  *atomic.Int64
	calls  *atomic.Int64
}

func (r removedLate) Breaker(ctx context.Context, workload string) (pool.Breaker, error) {
	b, err := r.DB.Breaker(ctx, workload)
	if r.calls.Add(1) == 2 {
		r.remove()
	}
	return b, err
}

func (r removedLate) Workload(ctx context.Context, id string) (pool.Record, error) {
	r.reads.Add(1)
	return r.DB.Workload(ctx, id)
}

// A pool that begins to yield when its workload was removed a moment before is not
// woken by the claims of others forever.
func TestRemovedPoolYieldsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.NewStopped(t)
		var pools *pool.Pools
		var reads, calls atomic.Int64
		db := removedLate{h.DB, func() {
			assert.NoError(t, h.Pools.Delete(t.Context(), "w"))
			assert.NoError(t, h.DB.RemoveWorkload(t.Context(), "w"))
			pools.Wake("w") // as the event does
			<-time.After(time.Second)
		}, &reads, &calls}
		pools = pool.New(db, h.RT, flowtest.HookRunner(h.RT, h.DB, nil), nil, slog.New(slog.DiscardHandler))
		h.Apply(poolYAML(1, 4))
		end := pools.BeginClaim()
		ctx, cancel := context.WithCancel(t.Context())
		var g errgroup.Group
		g.Go(func() error { return pools.Run(ctx) })
		<-time.After(time.Minute)
		end()
		require.EqualValues(t, 2, calls.Load(), "the pool is not assessed after the removal")
		before := reads.Load()
		for range 3 {
			pools.BeginClaim()()
			<-time.After(time.Second)
		}
		cancel()
		require.NoError(t, g.Wait())
		require.Equal(t, before, reads.Load())
	})
}
