package pool_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
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
