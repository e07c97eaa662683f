package claim_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/store"
)

// A claim does not get a fresh container while others wait for one, and not even
// its tenant's own while the pool is draining.
func TestIdleContainerIsNotReserved(t *testing.T) {
	for name, c := range map[string]struct {
		owner                string
		draining, othersWait bool
	}{
		"fresh, others wait":         {"", false, true},
		"own, draining":              {"ada", true, false},
		"own, draining, others wait": {"ada", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.NewStopped(t)
				r := h.Apply("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: 0, max_size: 3 }\n").Record
				idle := pool.Container{ID: "idle", Workload: "w", Revision: r.Revision, State: pool.Creating, Fence: 1, Protocol: h.RT.Protocols().Current}
				require.NoError(t, h.DB.AddContainer(t.Context(), idle, 3))
				_, err := h.DB.UpdateContainer(t.Context(), pool.Ready(idle.ID, func(k *pool.Container) { k.Health, k.Tenant = pool.Healthy, c.owner }))
				require.NoError(t, err)
				if c.draining {
					_, err := h.Pools.Drain(t.Context(), "w")
					require.NoError(t, err)
				}
				if c.othersWait {
					defer h.Pools.Queue.Add("w", time.Now()).Remove()
				}
				_, _, err = h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada", Wait: time.Second})
				u, ok := errors.AsType[*claim.UnavailableError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, c.draining, u.Reason == claim.Draining)
				require.Equal(t, 1, h.Count("w", pool.Idle))
			})
		})
	}
}

// hungWorkloads is a store that answers only one read of a workload.
type hungWorkloads struct {
	*store.DB
	reads *atomic.Int32
}

func (s hungWorkloads) Workload(ctx context.Context, id string) (pool.Record, error) {
	if s.reads.Add(1) > 1 {
		<-ctx.Done()
		return pool.Record{}, ctx.Err()
	}
	return s.DB.Workload(ctx, id)
}

// A claim that is released while it waits, or reads why it has to, ends with that
// as the cause.
func TestAbortDuringRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.NewStopped(t)
		h.Apply(smallWorkload(1))
		hooks := flowtest.HookRunner(h.RT, h.DB, nil)
		pools := pool.New(hungWorkloads{h.DB, new(atomic.Int32)}, h.RT, hooks, nil, slog.New(slog.DiscardHandler))
		claims := claim.NewService(h.DB, pools, h.RT, hooks, nil, slog.New(slog.DiscardHandler))
		result := make(chan error, 1)
		go func() {
			_, _, err := claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada", Wait: time.Hour})
			result <- err
		}()
		synctest.Wait()
		pending, err := h.DB.Claims(t.Context(), claim.Filter{Tenant: "ada"})
		require.NoError(t, err)
		require.Len(t, pending, 1)
		require.NoError(t, claims.Abort(t.Context(), pending[0]))
		require.ErrorIs(t, <-result, claim.ErrAborted)
	})
}

// A caller who cancels while its container is prepared does not cancel the claim,
// also if that container turns out to be unusable and another is idle.
func TestCallerCancelsBeforeAnotherContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: 2, max_size: 2 }\nrestart: always\n")
		h.AwaitIdle("w", 2)
		ctx, cancel := context.WithCancel(t.Context())
		unusable := ""
		defer h.RT.Before("restart", func(_ context.Context, call fake.Call) error {
			if unusable == "" {
				unusable = call.ID
				cancel()
				synctest.Wait()
				return runtime.ErrContainerExited
			}
			return nil
		})()
		c, _, err := h.Claims.Claim(ctx, claim.Request{Workload: "w", Tenant: "ada"})
		require.NoError(t, err)
		require.Equal(t, claim.Active, c.State)
		require.NotEqual(t, unusable, c.Container)
	})
}

// removingStore is a store whose Reserve comes after the removal of the workload.
type removingStore struct {
	*store.DB
	remove func(workload string)
}

func (s removingStore) Reserve(ctx context.Context, r claim.Reservation) (claim.Claim, error) {
	s.remove(r.Workload)
	return s.DB.Reserve(ctx, r)
}

// A claim that is recorded after the removal of its workload ends at once: it does
// not wait for a container.
func TestWorkloadRemovedBeforeItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.NewStopped(t)
		h.Apply(smallWorkload(1))
		claims := newService(h, removingStore{h.DB, func(id string) {
			require.NoError(t, h.Pools.Delete(t.Context(), id))
			require.NoError(t, h.DB.RemoveWorkload(t.Context(), id))
		}})
		begun := time.Now()
		_, _, err := claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada", Wait: time.Hour})
		require.ErrorIs(t, err, pool.ErrWorkloadNotFound)
		require.Less(t, time.Since(begun), time.Minute)
		all, err := h.DB.Claims(t.Context(), claim.Filter{States: claim.States()})
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, claim.Failed, all[0].State)
	})
}

// A claim on a workload that is being deleted is refused at once with that reason,
// whatever its wait time: the pool does not fill again.
func TestClaimOnDeletedWorkload(t *testing.T) {
	h := flowtest.NewStopped(t)
	r := h.Apply("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: 0, max_size: 3 }\n").Record
	kept := pool.Container{ID: "kept", Workload: "w", Revision: r.Revision, State: pool.Creating, Fence: 1, Protocol: h.RT.Protocols().Current}
	require.NoError(t, h.DB.AddContainer(t.Context(), kept, 3))
	require.NoError(t, h.Pools.Delete(t.Context(), "w"))
	_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada", Wait: time.Minute})
	u, ok := errors.AsType[*claim.UnavailableError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, claim.Deleting, u.Reason)
	require.Equal(t, "the workload is being deleted", u.Plain().Detail)
}
