package soak

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/store"
)

// awaitPools waits until cond holds for every pool.
func (s *soak) awaitPools(t *testing.T, what string, cond func(client.Pool) bool) {
	t.Helper()
	deadline := time.Now().Add(2 * waitTimeout)
	for {
		all, err := call(t.Context(), s.server, func(c *client.Client) ([]client.Pool, error) { return c.Pools(t.Context()) })
		require.NoError(t, err)
		holds := true
		for _, p := range all {
			holds = holds && cond(p)
		}
		if holds {
			return
		}
		if time.Now().After(deadline) {
			runs, err := s.server.api().Runs(t.Context(), client.RunFilter{Point: client.PostCreate, States: []client.RunState{client.RunFailed}, Limit: 3})
			require.FailNow(t, "waited unsuccessfully", "%s: %+v; hooks that failed: %+v %v", what, all, runs, err)
		}
		<-time.After(250 * time.Millisecond)
	}
}

// settle waits until the pools are filled and the server is idle, and returns its
// usage.
func (s *soak) settle(t *testing.T) usage {
	t.Helper()
	s.awaitPools(t, "pools to be filled", func(p client.Pool) bool {
		return p.Containers[client.ContainerIdle] == p.MinIdle && p.Waiting == 0 && p.Outdated == 0 &&
			p.Containers[client.ContainerCreating]+p.Containers[client.ContainerClaimed]+p.Containers[client.ContainerDestroying] == 0
	})
	return s.server.measure(t)
}

// settleFlat is settle, repeated while the usage is above early: files of ended
// work may still be open, and the runtime returns memory later.
func (s *soak) settleFlat(t *testing.T, early usage) usage {
	t.Helper()
	deadline := time.Now().Add(waitTimeout)
	now := s.settle(t)
	for !isFlat(early, now) && time.Now().Before(deadline) {
		<-time.After(time.Second)
		now = s.settle(t)
	}
	return now
}

// awaitEngineContainers waits until our containers on the engine are as many as
// want, and returns them: one that the engine has created after its call was
// abandoned is removed by the next comparison.
func (s *soak) awaitEngineContainers(t *testing.T, want int) []found {
	t.Helper()
	deadline := time.Now().Add(waitTimeout)
	for {
		all, err := s.engine.containers(t.Context(), s.instance)
		require.NoError(t, err)
		if len(all) == want || time.Now().After(deadline) {
			return all
		}
		<-time.After(100 * time.Millisecond)
	}
}

// requireHealthy checks that every idle container is healthy, and that nothing
// else is left.
func (s *soak) requireHealthy(t *testing.T) {
	t.Helper()
	at := s.server.api()
	idle, err := at.Containers(t.Context(), client.ContainerFilter{States: []client.ContainerState{client.ContainerIdle}})
	require.NoError(t, err)
	require.Len(t, idle, len(s.workloads), "every pool has an idle container")
	require.Len(t, s.awaitEngineContainers(t, len(idle)), len(idle), "the engine has no other containers")
	for _, c := range idle {
		require.Equal(t, client.Healthy, c.Health, c.ID)
		status, err := s.rt.Status(t.Context(), c.ID)
		require.NoError(t, err)
		require.Equal(t, runtime.Running, status.State)
		result, err := s.rt.Exec(t.Context(), c.ID, runtime.Command{Args: s.workload(c.Workload).check})
		require.NoError(t, err)
		require.True(t, result.OK())
	}
	live, err := at.Claims(t.Context(), client.ClaimFilter{})
	require.NoError(t, err)
	require.Empty(t, live, "live claims")
}

// drain empties the pools.
func (s *soak) drain(t *testing.T) {
	t.Helper()
	for _, w := range s.workloads {
		_, err := s.server.api().Drain(t.Context(), w.id)
		require.NoError(t, err)
	}
	s.awaitPools(t, "pools to be empty", func(p client.Pool) bool {
		total := 0
		for _, n := range p.Containers {
			total += n
		}
		return total == 0
	})
}

// requireNothingLeft checks that nothing is left on the engine and this machine.
func (s *soak) requireNothingLeft(t *testing.T) {
	t.Helper()
	require.Empty(t, s.awaitEngineContainers(t, 0), "containers")
	volumes, err := s.engine.volumes(t.Context(), s.instance)
	require.NoError(t, err)
	require.Empty(t, volumes, "volumes")
	require.Empty(t, processes(s.testprog), "processes of tenants")
}

// everyContainer calls do for each container, all of which have to be destroyed.
func everyContainer(ctx context.Context, db *store.DB, do func(pool.Container) error) error {
	all, err := db.Containers(ctx, pool.ContainerFilter{States: pool.States()})
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.State != pool.Destroyed {
			return fmt.Errorf("container %s is %s", c.ID, c.State)
		}
		if err := do(c); err != nil {
			return err
		}
	}
	return nil
}
