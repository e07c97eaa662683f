package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
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
