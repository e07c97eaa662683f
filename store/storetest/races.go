package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
)

// Of a thousand tenants on fifty containers, fifty get one each.
func manyTenants(t *testing.T, s Store) {
	Race(t, 50, 1000, s)
	requireLogMatchesRecords(t, s)
}

// Race makes the given number of tenants claim concurrently on all servers of
// one database. No container goes to two of them, and none is left over.
func Race(t *testing.T, containers, tenants int, servers ...Store) {
	t.Helper()
	for range containers {
		addIdleContainer(t, servers[0], rev, "")
	}
	var mu sync.Mutex // guards holders
	holders := map[string]string{}
	var refused atomic.Int64
	var g errgroup.Group
	for i := range tenants {
		g.Go(func() error {
			c, err := servers[i%len(servers)].Reserve(t.Context(), newReservation(fmt.Sprint("tenant", i)))
			if errors.Is(err, claim.ErrNoIdleContainer) {
				refused.Add(1)
				return nil
			}
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if first, taken := holders[c.Container]; taken {
				return fmt.Errorf("container %s went to claims %s and %s", c.Container, first, c.ID)
			}
			holders[c.Container] = c.ID
			return nil
		})
	}
	require.NoError(t, g.Wait())
	require.Len(t, holders, containers)
	require.EqualValues(t, tenants-containers, refused.Load())
}

// However many concurrent requests a tenant makes, it gets one claim.
func oneTenantRace(t *testing.T, s Store) {
	for range 20 {
		addIdleContainer(t, s, rev, "")
	}
	var mu sync.Mutex // guards ids
	ids := map[string]int{}
	var g errgroup.Group
	for range 200 {
		g.Go(func() error {
			c, err := s.Reserve(t.Context(), newReservation("ann"))
			mu.Lock()
			defer mu.Unlock()
			ids[c.ID+" "+c.Container]++
			return err
		})
	}
	require.NoError(t, g.Wait())
	require.Len(t, ids, 1)
	claims, err := s.Claims(t.Context(), claim.Filter{States: claim.States()})
	require.NoError(t, err)
	require.Len(t, claims, 1)
	requireLogMatchesRecords(t, s)
}

// max_size is never exceeded, however many servers fill concurrently.
func maxSizeInRace(t *testing.T, s Store) {
	const bound = 7
	PutWorkloads(t, s, web)
	var full atomic.Int64
	var g errgroup.Group
	for range 100 {
		g.Go(func() error {
			err := s.AddContainer(t.Context(), pool.Container{ID: newID(), Workload: web, Revision: rev}, bound)
			if errors.Is(err, pool.ErrFull) {
				full.Add(1)
				return nil
			}
			return err
		})
	}
	require.NoError(t, g.Wait())
	require.EqualValues(t, 100-bound, full.Load())
	all, err := s.Containers(t.Context(), pool.ContainerFilter{Workload: web})
	require.NoError(t, err)
	require.Len(t, all, bound)
}

// A workload is removed or a container is added to it, whichever is first: no
// container exists without the record of its workload.
func removalRace(t *testing.T, s Store) {
	removed := 0
	for round := range 60 {
		id := fmt.Sprint("w", round)
		require.NoError(t, s.PutWorkload(t.Context(), pool.Record{ID: id, Revision: rev, MaxSize: unlimited, Deleting: true}))
		isExpected := func(err, refusal error) (isDone bool, _ error) {
			if errors.Is(err, refusal) {
				return false, nil
			}
			return err == nil, err
		}
		var isRemoved bool
		var added atomic.Int64
		var g errgroup.Group
		add := func() error {
			c := pool.Container{ID: newID(), Workload: id, Revision: rev}
			isAdded, err := isExpected(s.AddContainer(t.Context(), c, unlimited), pool.ErrWorkloadNotFound)
			if isAdded {
				added.Add(1)
			}
			return err
		}
		remove := func() (err error) {
			isRemoved, err = isExpected(s.RemoveWorkload(t.Context(), id), pool.ErrInUse)
			return err
		}
		calls := []func() error{add, remove}
		for i := range calls {
			g.Go(calls[(i+round)%len(calls)]) // each is the first one of some rounds
		}
		require.NoError(t, g.Wait())
		all, err := s.Containers(t.Context(), pool.ContainerFilter{Workload: id})
		require.NoError(t, err)
		require.Len(t, all, int(added.Load()))
		_, err = s.Workload(t.Context(), id)
		require.Equal(t, isRemoved, errors.Is(err, pool.ErrWorkloadNotFound))
		require.Equal(t, isRemoved, len(all) == 0, "a container that exists keeps its workload")
		if isRemoved {
			removed++
		}
	}
	t.Logf("%d of 60 workloads were removed first", removed)
	requireLogMatchesRecords(t, s)
}

// A revision is removed, by the removal of its workload or by retention, or a container
// of it is added, whichever is first: no container exists without its revision's file.
func revisionRace(t *testing.T, s Store) {
	ctx := t.Context()
	var added, refused atomic.Int64
	add := func() error {
		err := s.AddContainer(ctx, pool.Container{ID: newID(), Workload: web, Revision: oldRev}, unlimited)
		if errors.Is(err, pool.ErrWorkloadNotFound) {
			refused.Add(1)
			return nil
		}
		added.Add(1)
		return err
	}
	current := pool.Record{ID: web, Revision: rev, Source: []byte("new"), MaxSize: unlimited}
	reapply := func() error {
		if err := s.RemoveWorkload(ctx, web); err != nil {
			return ignore(err, pool.ErrInUse)
		}
		return s.PutWorkload(ctx, current)
	}
	prune := func() error {
		_, err := s.Prune(ctx, store.Retention{Before: time.Now().Add(time.Hour)})
		return err
	}
	for round := range 60 {
		former := current
		former.Revision, former.Deleting = oldRev, true
		putWorkload(t, s, former)
		calls := []func() error{add, reapply, add}
		if round%2 == 0 { // it is not the current one, but may still be created
			putWorkload(t, s, current)
			calls[1] = prune
		}
		var g errgroup.Group
		for i := range calls {
			g.Go(calls[(i+round/2)%len(calls)]) // each is the first one of some rounds
		}
		require.NoError(t, g.Wait())
		all, err := s.Containers(ctx, pool.ContainerFilter{Workload: web})
		require.NoError(t, err)
		for _, c := range all {
			_, err := s.Revision(ctx, web, c.Revision)
			require.NoError(t, err, "of a container that exists")
			mustUpdateContainer(t, s, destroyingTransition(c.ID))
			mustUpdateContainer(t, s, destroyedTransition(c.ID))
		}
	}
	require.EqualValues(t, 120, added.Load()+refused.Load())
	t.Logf("%d of 120 containers were refused", refused.Load())
}

// ignore returns err unless it is the refusal.
func ignore(err, refusal error) error {
	if errors.Is(err, refusal) {
		return nil
	}
	return err
}
