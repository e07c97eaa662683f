// Package flowtest is a harness for tests of the flows: a real database, an
// in-memory runtime with fault injection, and the services on them. It is used
// inside testing/synctest bubbles, where backoffs and timeouts take no time.
package flowtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/builtin"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/internal/dispatch"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/dbtest"
	"github.com/hostler/hostler/wait"
	"github.com/hostler/hostler/workload"
)

// Harness holds the services of one server.
type Harness struct {
	T        testing.TB
	RT       *fake.Runtime // nil when the harness has another runtime
	DB       *store.DB
	Pools    *pool.Pools
	Claims   *claim.Service
	Releases *release.Service
	Waits    *wait.Service
	// Bucket holds the sink of every workload. It survives Restart.
	Bucket *snapshottest.Memory
	// RunReads counts how often hooks have read records of runs.
	RunReads atomic.Int64

	runtime        runtime.Runtime
	path           string
	stop           func()
	stopDispatcher func()
}

// New returns a harness on an empty database and starts its loops. It is closed
// when the test ends.
func New(t testing.TB) *Harness {
	t.Helper()
	h := NewStopped(t)
	h.Start()
	return h
}

// NewOn is New on another runtime, which the caller closes.
func NewOn(t testing.TB, rt runtime.Runtime) *Harness {
	t.Helper()
	h := newHarness(t, rt)
	h.Start()
	return h
}

// NewStopped is New without the loops: no container is created, removed or
// watched until Start.
func NewStopped(t testing.TB) *Harness {
	t.Helper()
	rt := fake.New()
	h := newHarness(t, rt)
	h.RT = rt
	return h
}

func newHarness(t testing.TB, rt runtime.Runtime) *Harness {
	t.Helper()
	h := &Harness{T: t, runtime: rt, path: dbtest.Path(t), Bucket: snapshottest.NewMemory(), stop: func() {}}
	h.open()
	t.Cleanup(func() {
		h.stop()
		h.stopDispatcher()
		h.checkEvents()
		require.NoError(h.T, h.DB.Close())
	})
	return h
}

// ForgetCalls forgets the calls of the runtime, once those in progress have been made:
// the creation of a container confirms it after it is idle.
func (h *Harness) ForgetCalls() {
	h.T.Helper()
	synctest.Wait()
	h.RT.ForgetCalls()
}

// checkEvents checks that the data of every event in the log is of the struct
// of its type.
func (h *Harness) checkEvents() {
	page, err := h.DB.Events(context.Background(), activity.Filter{}, 0, 100000)
	if errors.Is(err, store.ErrClosed) {
		return // by the test
	}
	require.NoError(h.T, err)
	for _, e := range page.Items {
		if len(e.Data) == 0 {
			continue
		}
		data := activity.NewData(e.Type)
		require.NotNil(h.T, data, "an event %s has data: %s", e.Type, e.Data)
		d := json.NewDecoder(bytes.NewReader(e.Data))
		d.DisallowUnknownFields()
		require.NoError(h.T, d.Decode(data), "the data of an event %s: %s", e.Type, e.Data)
	}
}

func (h *Harness) open() {
	db, err := store.Open(context.Background(), h.path)
	require.NoError(h.T, err)
	log := slog.New(panicHandler{slog.DiscardHandler, h.T})
	hookRunner := HookRunner(h.runtime, countedReads{db, &h.RunReads}, pool.NewCatalog(db))
	db.SetProtocols(h.runtime.Protocols())
	h.DB = db
	h.Pools = pool.New(db, h.runtime, hookRunner, sinks{h.Bucket}.check, log)
	h.Claims = claim.NewService(db, h.Pools, h.runtime, hookRunner, sinks{h.Bucket}, log)
	h.Releases = release.NewService(db, h.Claims, h.Pools, h.runtime, hookRunner, log)
	h.Waits = wait.New(db, wait.Options{Claims: db, Workloads: h.Pools.Catalog, Runner: hookRunner, Log: log})
	h.startDispatcher(log)
}

// countedReads is a recorder that counts its reads.
type countedReads struct {
	hooks.Recorder
	n *atomic.Int64
}

// Runs implements hooks.Recorder.
func (c countedReads) Runs(ctx context.Context, f hooks.RunFilter) ([]hooks.Run, error) {
	c.n.Add(1)
	return c.Recorder.Runs(ctx, f)
}

// HookRunner returns a runner of commands, scripts and builtins in rt that
// records them in recorder. files may be nil.
func HookRunner(rt runtime.Runtime, recorder hooks.Recorder, files runner.Files) *runner.Runner {
	inContainer := runner.NewCommandExecutor(rt)
	return runner.New(rt, recorder, runner.Executors{
		hooks.KindCommand: inContainer, hooks.KindScript: inContainer,
		hooks.KindBuiltin: builtin.NewExecutor(slog.New(slog.DiscardHandler)),
	}, files)
}

// startDispatcher starts the dispatcher of the services' event handlers.
func (h *Harness) startDispatcher(log *slog.Logger) {
	d := dispatch.New(h.DB, log, h.Pools.EventHandlers(), h.Claims.EventHandlers(), h.Releases.EventHandlers(), h.Waits.EventHandlers())
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error { return d.Run(ctx) })
	h.stopDispatcher = sync.OnceFunc(func() {
		cancel()
		_ = g.Wait() // it returns nil
	})
}

// panicHandler fails the test when a loop has recovered from a panic.
type panicHandler struct {
	slog.Handler
	t testing.TB
}

// Enabled is slog.Handler.Enabled.
func (panicHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }

// Handle is slog.Handler.Handle.
func (p panicHandler) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "stack" {
			p.t.Errorf("%s: %s", r.Message, a.Value)
		}
		return true
	})
	return nil
}

// Start starts the loops.
func (h *Harness) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	pools, claims, waits := h.Pools, h.Claims, h.Waits // a test may replace them
	var g errgroup.Group
	g.Go(func() error { return pools.Run(ctx) })
	g.Go(func() error { return claims.Run(ctx) })
	if waits != nil { // a test may have servers of its own
		g.Go(func() error { return waits.Run(ctx) })
	}
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := g.Wait(); err != nil {
			h.T.Errorf("the loops ended with %v", err)
		}
	})
}

// Restart drops everything in memory and reopens the database, like a server
// that was killed and started again: recovered, with its loops running. The
// containers stay unchanged.
func (h *Harness) Restart() {
	h.T.Helper()
	h.RestartUnfinished()
	ctx := h.T.Context()
	releasing, err := h.DB.Claims(ctx, claim.Filter{States: []claim.State{claim.Releasing}})
	require.NoError(h.T, err)
	for _, c := range releasing {
		_, err := h.Releases.Release(ctx, c.ID, release.Request{Reason: c.Reason, Discard: c.Discard})
		require.NoError(h.T, err)
	}
}

// RestartUnfinished is Restart without completing the interrupted releases.
func (h *Harness) RestartUnfinished() {
	h.T.Helper()
	h.stop()
	h.stopDispatcher()
	require.NoError(h.T, h.DB.Close())
	h.open()
	ctx := h.T.Context()
	owned, err := h.DB.OwnedBy(ctx, "")
	require.NoError(h.T, err)
	require.NoError(h.T, h.Claims.Recover(ctx, owned.Claims))
	require.NoError(h.T, h.Pools.Recover(ctx, owned.Containers))
	require.NoError(h.T, h.Waits.TakeOver(ctx, owned.Waits))
	require.NoError(h.T, h.Releases.TakeOver(ctx, owned.Claims, owned.Runs))
	h.Start()
}

// Upgrade is a Restart with another protocol version. The new server supports
// that version and the one before.
func (h *Harness) Upgrade(version int) {
	h.T.Helper()
	h.RT.SetProtocols(runtime.Protocols{Oldest: version - 1, Current: version})
	h.Restart()
}

// Apply applies a workload file and returns the result.
func (h *Harness) Apply(source string) pool.Applied {
	h.T.Helper()
	applied, err := h.Pools.Apply(h.T.Context(), []byte(source), "workload.yaml", "")
	require.NoError(h.T, err)
	return applied
}

// Claim claims for a tenant, and must succeed.
func (h *Harness) Claim(workload, tenant string) claim.Claim {
	h.T.Helper()
	c, _, err := h.Claims.Claim(h.T.Context(), claim.Request{Workload: workload, Tenant: tenant})
	require.NoError(h.T, err)
	return c
}

// Release releases a claim, and must succeed.
func (h *Harness) Release(c claim.Claim) claim.Claim {
	h.T.Helper()
	c, err := h.Releases.Release(h.T.Context(), c.ID, release.Request{})
	require.NoError(h.T, err)
	return c
}

// Until returns when condition holds, and everything that follows from that without
// the passing of time has happened. It checks again after each write to the event log.
// A benchmark measures real time, in no bubble, and returns as soon as condition holds.
func (h *Harness) Until(what string, condition func() bool) {
	h.T.Helper()
	h.Await(what, condition)
	if _, isBenchmark := h.T.(*testing.B); !isBenchmark {
		synctest.Wait()
	}
}

// Await is Until in a function that the harness calls: it returns as soon as condition
// holds.
func (h *Harness) Await(what string, condition func() bool) {
	h.T.Helper()
	for {
		changed := h.DB.Changed()
		if condition() {
			return
		}
		select {
		case <-changed:
		case <-h.T.Context().Done():
			require.FailNow(h.T, "timed out waiting for", what)
		}
	}
}

// Count returns how many containers of a workload are in a state.
func (h *Harness) Count(workload string, s pool.State) int {
	h.T.Helper()
	status, err := h.Pools.Status(h.T.Context(), workload)
	require.NoError(h.T, err)
	return status.Containers[s]
}

// AwaitIdle returns when exactly n containers are idle, none is being created or
// destroyed, and nothing else happens: what has just become idle is checked once more.
func (h *Harness) AwaitIdle(workload string, n int) {
	h.T.Helper()
	h.Until("containers to be idle", func() bool {
		return h.Count(workload, pool.Idle) == n && h.Count(workload, pool.Creating) == 0 &&
			h.Count(workload, pool.Destroying) == 0
	})
}

// Events returns the events of the given types so far, in order.
func (h *Harness) Events(types ...activity.Type) []activity.Event {
	h.T.Helper()
	page, err := h.DB.Events(h.T.Context(), activity.Filter{Types: types}, 0, 100000)
	require.NoError(h.T, err)
	return page.Items
}

// sinks opens the sinks of all workloads in one bucket.
type sinks struct{ bucket snapshot.Bucket }

func (s sinks) Open(_ context.Context, cfg *workload.Sync) (*snapshot.Sink, error) {
	return snapshot.New(s.bucket, cfg), nil
}

func (sinks) check(context.Context, *workload.Sync) error { return nil }
