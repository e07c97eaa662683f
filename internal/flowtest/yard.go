// Package flowtest is a whole yard for tests of the flows: a real database, a
// runtime in memory that can be broken, and the services on them. It is used
// inside testing/synctest bubbles, so that backoffs and timeouts cost nothing.
package flowtest

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/workload"
)

// Yard is one server's services.
type Yard struct {
	T        testing.TB
	RT       *fake.Runtime // nil when the yard is on another runtime
	DB       *store.DB
	Pools    *pool.Pools
	Claims   *claim.Service
	Releases *release.Service
	// Bucket is where every workload's sink is. It outlives a Crash.
	Bucket *snapshottest.Memory

	runtime runtime.Runtime
	path    string
	stop    func()
}

// New opens a yard on an empty database and starts its loops. It is closed
// when the test ends.
func New(t testing.TB) *Yard {
	t.Helper()
	y := Stopped(t)
	y.Start()
	return y
}

// On is New on another runtime, which stays the caller's to close.
func On(t testing.TB, rt runtime.Runtime) *Yard {
	t.Helper()
	y := prepared(t, rt)
	y.Start()
	return y
}

// Stopped is New without the loops: nothing is filled, removed or noticed
// until Start.
func Stopped(t testing.TB) *Yard {
	t.Helper()
	rt := fake.New()
	y := prepared(t, rt)
	y.RT = rt
	return y
}

func prepared(t testing.TB, rt runtime.Runtime) *Yard {
	t.Helper()
	y := &Yard{T: t, runtime: rt, path: filepath.Join(t.TempDir(), "hostler.db"), Bucket: snapshottest.NewMemory(), stop: func() {}}
	y.open()
	t.Cleanup(func() {
		y.stop()
		require.NoError(y.T, y.DB.Close())
	})
	return y
}

func (y *Yard) open() {
	db, err := store.Open(context.Background(), y.path)
	require.NoError(y.T, err)
	log := slog.New(slog.DiscardHandler)
	runner := hooks.NewRunner(y.runtime, db)
	db.Speak(y.runtime.Protocols())
	y.DB = db
	y.Pools = pool.New(db, y.runtime, runner, log)
	y.Claims = claim.NewService(db, y.Pools, y.runtime, runner, sinks{y.Bucket}, log)
	y.Releases = release.NewService(db, y.Claims, y.Pools, y.runtime, runner, log)
}

// Start starts the loops.
func (y *Yard) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error { return y.Pools.Run(ctx) })
	g.Go(func() error { return y.Claims.Run(ctx) })
	y.stop = sync.OnceFunc(func() {
		cancel()
		if err := g.Wait(); err != nil {
			y.T.Errorf("the loops ended with %v", err)
		}
	})
}

// Crash throws everything in memory away and opens the database anew, as a
// server that was killed and started again: recovered, and with its loops
// running. The containers stay as they are.
func (y *Yard) Crash() {
	y.T.Helper()
	y.CrashUnfinished()
	ctx := y.T.Context()
	releasing, err := y.DB.Claims(ctx, claim.Filter{States: []claim.State{claim.Releasing}})
	require.NoError(y.T, err)
	for _, c := range releasing {
		_, err := y.Releases.Release(ctx, c.ID, release.Request{Reason: c.Reason, Discard: c.Discard})
		require.NoError(y.T, err)
	}
}

// CrashUnfinished is Crash for a server that does not finish the releases.
func (y *Yard) CrashUnfinished() {
	y.T.Helper()
	y.stop()
	require.NoError(y.T, y.DB.Close())
	y.open()
	ctx := y.T.Context()
	left, err := y.DB.Owned(ctx, "")
	require.NoError(y.T, err)
	require.NoError(y.T, y.Claims.Recover(ctx, left.Claims))
	require.NoError(y.T, y.Pools.Recover(ctx, left.Containers))
	require.NoError(y.T, y.Releases.TakeOver(ctx, left.Claims, left.Runs))
	y.Start()
}

// Upgrade is a Crash whose next server is of another version: it speaks that
// version of the protocol, and the one before.
func (y *Yard) Upgrade(version int) {
	y.T.Helper()
	y.RT.Speak(runtime.Protocols{Oldest: version - 1, Current: version})
	y.Crash()
}

// Apply applies a workload file and returns what became of it.
func (y *Yard) Apply(source string) pool.Applied {
	y.T.Helper()
	applied, err := y.Pools.Apply(y.T.Context(), []byte(source), "workload.yaml", "")
	require.NoError(y.T, err)
	return applied
}

// Claim claims for a tenant, and must succeed.
func (y *Yard) Claim(workload, tenant string) claim.Claim {
	y.T.Helper()
	c, _, err := y.Claims.Claim(y.T.Context(), claim.Request{Workload: workload, Tenant: tenant})
	require.NoError(y.T, err)
	return c
}

// Release releases a claim, and must succeed.
func (y *Yard) Release(c claim.Claim) claim.Claim {
	y.T.Helper()
	c, err := y.Releases.Release(y.T.Context(), c.ID, release.Request{})
	require.NoError(y.T, err)
	return c
}

// Until returns when cond holds. It looks again whenever something has been
// written to the log.
func (y *Yard) Until(what string, cond func() bool) {
	y.T.Helper()
	for {
		changed := y.DB.Changed()
		if cond() {
			return
		}
		select {
		case <-changed:
		case <-y.T.Context().Done():
			require.FailNow(y.T, "waited in vain", what)
		}
	}
}

// Count is how many containers of a workload are in a state.
func (y *Yard) Count(workload string, s pool.State) int {
	y.T.Helper()
	status, err := y.Pools.Status(y.T.Context(), workload)
	require.NoError(y.T, err)
	return status.Containers[s]
}

// Idle returns when exactly n containers are idle, and none is being made or
// destroyed.
func (y *Yard) Idle(workload string, n int) {
	y.T.Helper()
	y.Until("containers to be idle", func() bool {
		return y.Count(workload, pool.Idle) == n && y.Count(workload, pool.Creating) == 0 &&
			y.Count(workload, pool.Destroying) == 0
	})
}

// Events are those of a type so far, in order.
func (y *Yard) Events(types ...activity.Type) []activity.Event {
	y.T.Helper()
	page, err := y.DB.Events(y.T.Context(), activity.Filter{Types: types}, 0, 100000)
	require.NoError(y.T, err)
	return page.Items
}

// sinks keeps what every workload keeps in one bucket.
type sinks struct{ bucket snapshot.Bucket }

func (s sinks) For(_ context.Context, sync *workload.Sync) (*snapshot.Sink, error) {
	return snapshot.On(s.bucket, sync), nil
}
