package pool_test

import (
	"context"
	"errors"
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
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/store"
)

// syncedYAML is a pool of one container whose tenants' state is kept.
const syncedYAML = `
id: w
image: box
command: [box, idle]
volumes: { state: { target: /data } }
pool: { min_idle: 0, max_size: 1 }
sync: { sink: { type: file } }
`

var errOutage = errors.New("no connection to the database")

// failingReads is a store whose first lists fail.
type failingReads struct {
	*store.DB
	containers, workloads *atomic.Int64 // how many fail
}

func (f failingReads) Containers(ctx context.Context, filter pool.ContainerFilter) ([]pool.Container, error) {
	if f.containers.Add(-1) >= 0 {
		return nil, errOutage
	}
	return f.DB.Containers(ctx, filter)
}

func (f failingReads) Workloads(ctx context.Context) ([]pool.Record, error) {
	if f.workloads.Add(-1) >= 0 {
		return nil, errOutage
	}
	return f.DB.Workloads(ctx)
}

// Errors of the database when a server begins to lead are retried: they do not
// end its loops.
func TestStorageErrorAtStartIsRetried(t *testing.T) {
	for name, failures := range map[string][2]int64{"containers": {2, 0}, "workloads": {0, 2}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.NewStopped(t)
				h.Apply(poolYAML(1, 1))
				db := failingReads{h.DB, &atomic.Int64{}, &atomic.Int64{}}
				db.containers.Store(failures[0])
				db.workloads.Store(failures[1])
				pools := pool.New(db, h.RT, flowtest.HookRunner(h.RT, h.DB, nil), nil, slog.New(slog.DiscardHandler))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.NoError(t, pools.Run(ctx))
				require.Equal(t, 1, h.Count("w", pool.Idle))
			})
		})
	}
}

// A pool whose last creation failed, and whose containers are kept for their
// tenants, makes room for the next attempt.
func TestFailedPoolWithoutRoomRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(poolYAML(0, 3))
		ada, bob := h.Claim("w", "ada"), h.Claim("w", "bob")
		restore := h.RT.Break("create", errors.New("the registry is down"))
		_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "cyd"})
		require.Error(t, err)
		h.Release(ada)
		h.Release(bob)
		two := 2
		_, err = h.Pools.Scale(t.Context(), "w", pool.Scale{MaxSize: &two})
		require.NoError(t, err)
		restore() // the registry is back
		_, _, err = h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "cyd", Wait: time.Minute})
		require.NoError(t, err)
		require.Equal(t, 1, h.Count("w", pool.Idle), "room is made for one container")
	})
}

// wakingStore is a store after whose reservations the filler has its turn.
type wakingStore struct {
	claim.Store
	h *flowtest.Harness
}

func (s wakingStore) Reserve(ctx context.Context, r claim.Reservation) (claim.Claim, error) {
	c, err := s.Store.Reserve(ctx, r)
	s.h.Pools.WakeFiller(r.Workload)
	synctest.Wait()
	return c, err
}

// A claim that has its container and is still in the queue makes no room: the
// container that is kept for another tenant stays.
func TestServedClaimMakesNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(poolYAML(0, 2))
		h.Release(h.Claim("w", "ada"))
		synctest.Wait() // the harness's own service has swept
		claims := claim.NewService(wakingStore{h.DB, h}, h.Pools, h.RT, flowtest.HookRunner(h.RT, h.DB, nil), nil, slog.New(slog.DiscardHandler))
		_, _, err := claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "cyd", Wait: time.Minute})
		require.NoError(t, err)
		require.Empty(t, h.Events(activity.ContainerDestroying), "ada's container")
		require.Equal(t, 1, h.Count("w", pool.Idle))
	})
}

// So does one into which the container of a failed release returns.
func TestFailedPoolRecoversAfterKeptContainerReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedYAML)
		c := h.Claim("w", "ada")
		h.Bucket.FailAfter(0)
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.Error(t, err)
		restore := h.RT.Break("create", errors.New("the registry is down"))
		_, _, err = h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "cyd"})
		require.Error(t, err)
		h.Bucket.ClearFailures()
		h.Release(c)
		restore() // all is well again
		_, _, err = h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "cyd", Wait: time.Minute})
		require.NoError(t, err)
	})
}

// A workload that is crash-looping does not recover because of a failure to create
// a container, or of the success after it.
func TestCreateFailureDoesNotEndCrashLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.RT.After("start", func(_ context.Context, call fake.Call) error {
			time.AfterFunc(100*time.Millisecond, func() { h.RT.Kill(call.ID) })
			return nil
		})
		h.Apply(poolYAML(1, 1))
		h.Until("the pool to be failing", func() bool {
			s, err := h.Pools.Status(t.Context(), "w")
			require.NoError(t, err)
			return s.Fill.State == pool.FillFailing
		})
		h.RT.BreakOnce("create", errors.New("one hiccup of the engine"))
		<-time.After(5 * time.Minute)
		s, err := h.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Equal(t, pool.FillFailing, s.Fill.State, "every container exits at once: %+v", s.Fill)
		require.Empty(t, h.Events(activity.PoolRecovered))
	})
}

// A crash loop that was recorded before the clock was set back ends although the
// clock has not caught up.
func TestCrashLoopAfterClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(poolYAML(1, 2))
		h.AwaitIdle("w", 1)
		r, err := h.Pools.Workload(t.Context(), "w")
		require.NoError(t, err)
		ahead := time.Now().Add(24 * time.Hour) // the clock was a day ahead
		require.NoError(t, h.DB.UpdateBreaker(t.Context(), "w", func(b *pool.Breaker) []activity.Event {
			*b = pool.Breaker{Workload: "w", Revision: r.Revision, Failures: 1, LastError: "x", LastErrorAt: ahead, RetryAt: ahead.Add(time.Second), CrashLooping: true}
			return nil
		}))
		h.Pools.Wake("w")
		<-time.After(time.Minute)
		s, err := h.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Zero(t, s.Fill.Failures, "no container exits")
	})
}
