package main

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/inside"
	"github.com/hostler/hostler/memory"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/publish"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/dbtest"
	"github.com/hostler/hostler/wait"
)

// openInside returns a new server on a database, as after the loss of one.
func openInside(db *store.DB) *server {
	log := slog.New(slog.DiscardHandler)
	return &server{db: db, publish: publish.New(db, publish.Options{Touch: db.Claim, Log: log}), memory: memory.New(db, log), log: log}
}

// openWithWorkload opens a new database with a workload.
func openWithWorkload(t *testing.T) *store.DB {
	t.Helper()
	db := dbtest.Open(t)
	require.NoError(t, db.PutWorkload(t.Context(), pool.Record{ID: "w", Revision: "r", Source: []byte("id: w\nimage: box\n"), MaxSize: 10, SharedMemory: true}))
	return db
}

// activeClaim adds an active claim of a tenant.
func activeClaim(t *testing.T, db *store.DB, tenant string) claim.Claim {
	t.Helper()
	id := uuid.NewString()
	require.NoError(t, db.AddContainer(t.Context(), pool.Container{ID: id, Workload: "w", Revision: "r"}, 100))
	_, err := db.UpdateContainer(t.Context(), pool.Ready(id, func(*pool.Container) {}))
	require.NoError(t, err)
	c, err := db.Reserve(t.Context(), claim.Reservation{Claim: uuid.NewString(), Workload: "w", Tenant: tenant, Revision: "r"})
	require.NoError(t, err)
	c, err = db.UpdateClaim(t.Context(), claim.Activate(c.ID, claim.Fresh, nil))
	require.NoError(t, err)
	return c
}

// A request that a program sends again, because the answer was lost with its server,
// does nothing twice on the next server, and has the first answer. An event of the
// command of an event hook has the depth of one, on every server.
func TestRepeatedRequestAfterLossOfServer(t *testing.T) {
	db := openWithWorkload(t)
	c := activeClaim(t, db, "ada")
	run := hooks.Run{
		ID: "run", Attempt: 2, Hook: "h", Event: "claim.activated", Kind: hooks.KindBuiltin, State: hooks.Running, Workload: "w", Container: c.Container,
		Claim: c.ID, Tenant: "ada", StartedAt: time.Now(),
	}
	require.NoError(t, db.RunStarted(t.Context(), run))
	caller := func(request string, fromHook bool) inside.Caller {
		by := inside.Caller{Claim: c.ID, Container: c.Container, Workload: "w", Tenant: "ada", Request: request}
		if by.FromHook = fromHook; fromHook {
			by.Run = "run.2"
		}
		return by
	}
	var published publish.Response
	var written memory.Written
	none := int64(0)
	for i := range 3 {
		s := openInside(db)
		event, err := s.publishInside(t.Context(), caller("event", false), publish.Request{Type: "agent.done"})
		require.NoError(t, err)
		_, err = s.publishInside(t.Context(), caller("of hook", true), publish.Request{Type: "agent.hooked"})
		require.NoError(t, err)
		_, err = s.setActivityInside(t.Context(), caller("activity", true), publish.ActivityRequest{Activity: "thinking"})
		require.NoError(t, err)
		put, err := s.putInside(t.Context(), caller("put", false), memory.PutRequest{Key: "k", Value: []byte("1"), IfVersion: &none})
		require.NoError(t, err, "it is no conflict with itself")
		require.True(t, put.Created)
		deleted, err := s.deleteInside(t.Context(), caller("delete", true), memory.DeleteRequest{Key: "k", IfVersion: &put.Version})
		require.NoError(t, err)
		require.True(t, deleted.Deleted)
		if i == 0 {
			published, written = event, put
			_, err = s.putInside(t.Context(), caller("next", false), memory.PutRequest{Key: "k", Value: []byte("2")})
			require.NoError(t, err)
		}
		require.True(t, published.Time.Equal(event.Time))
		require.True(t, written.UpdatedAt.Equal(put.UpdatedAt))
		require.Equal(t, written.Version, put.Version)
		kept, err := s.memory.Get(t.Context(), c.ID, memory.GetRequest{Key: "k"})
		require.NoError(t, err)
		require.Equal(t, "2", string(kept.Value))
	}
	s := openInside(db) // on which nothing was asked yet
	_, err := s.deleteInside(t.Context(), caller("put", false), memory.DeleteRequest{Key: "k"})
	require.ErrorIs(t, err, memory.ErrInvalid, "the ID is that of another request")
	_, err = s.publishInside(t.Context(), caller("activity", true), publish.Request{Type: "agent.done"})
	require.ErrorIs(t, err, publish.ErrInvalid, "the ID is that of another request")
	depths := map[activity.Type][]int{}
	page, err := db.Events(t.Context(), activity.Filter{Claim: c.ID}, 0, 1000)
	require.NoError(t, err)
	for _, e := range page.Items {
		if e.Untrusted {
			depths[e.Type] = append(depths[e.Type], e.Depth)
		}
	}
	require.Equal(t, map[activity.Type][]int{"agent.done": {0}, "agent.hooked": {1}, "agent.activity_changed": {1}}, depths)
}

// startAsking starts a server whose containers are in memory, and answers what their
// processes ask.
func startAsking(t *testing.T) *server {
	t.Helper()
	db, err := store.Open(t.Context(), dbtest.Path(t))
	require.NoError(t, err)
	requests, err := serveConfig{}.requests()
	require.NoError(t, err)
	rt := fake.New()
	db.SetProtocols(rt.Protocols())
	s := assemble(db, closableRuntime{rt}, snapshot.NewSinks(snapshot.PathPolicy{}, nil), requests, nil, 0, slog.New(slog.DiscardHandler))
	s.inside = s.insideRequests(api.New(s.apiOptions(t.TempDir())))
	ctx, stop := context.WithCancel(context.Background())
	var loops errgroup.Group
	loops.Go(func() error { return s.pools.Run(ctx) })
	loops.Go(func() error { return s.events.Run(ctx) })
	loops.Go(func() error { return s.waits.Run(ctx) })
	loops.Go(func() error { return s.keeper.Run(ctx, s.inside) })
	t.Cleanup(func() {
		stop()
		require.NoError(t, loops.Wait())
		require.NoError(t, db.Close())
	})
	return s
}

// A hook of a claim that is pending or releasing uses the memory of its claim, and
// publishes events. It may neither wait nor release.
func TestHooksOfFlowsAsk(t *testing.T) {
	t.Parallel()
	s := startAsking(t)
	_, err := s.pools.Apply(t.Context(), []byte(`id: w
image: box
pool: {min_idle: 1, max_size: 1}
hooks:
  post_claim:
    - {name: put, command: [box, ask, one, memory.put, '{"key":"k","value":[1]}']}
    - {name: publish, command: [box, ask, two, event.publish, '{"type":"agent.ready"}']}
    - {name: wait, command: [box, ask, three, wait, '{"type":"x","timeout":"1s"}'], on_error: continue}
  pre_release:
    - {name: get, command: [box, ask, four, memory.get, '{"key":"k"}']}
    - {name: release, command: [box, ask, five, release, '{}'], on_error: continue}
`), "w.yaml", "")
	require.NoError(t, err)
	c, _, err := s.claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
	require.NoError(t, err)
	_, err = s.releases.Release(t.Context(), c.ID, release.Request{})
	require.NoError(t, err)
	runs, err := s.db.Runs(t.Context(), hooks.RunFilter{Claim: c.ID})
	require.NoError(t, err)
	states := map[string]hooks.RunState{}
	for _, r := range runs {
		states[r.Hook] = r.State
		if r.Hook == "get" {
			require.Contains(t, r.Stdout.Head, `"value":[1]`, "%+v", r)
		}
		if r.State == hooks.Failed {
			require.Contains(t, r.Stderr.Head, string(runtime.ProblemDenied), r.Hook)
		}
	}
	require.Equal(t, map[string]hooks.RunState{
		"put": hooks.Succeeded, "publish": hooks.Succeeded, "get": hooks.Succeeded, "wait": hooks.Failed, "release": hooks.Failed,
	}, states)
}

// The hooks of a wait keep the context of the agent in the memory of its claim, and
// restore it when the signal comes.
func TestHooksOfWaitsKeepContext(t *testing.T) {
	t.Parallel()
	s := startAsking(t)
	_, err := s.pools.Apply(t.Context(), []byte(`id: w
image: box
pool: {min_idle: 1, max_size: 1}
hooks:
  wait_start: [{name: keep, command: [box, ask, one, memory.put, '{"level":"agent","key":"context","value":{"line":12}}']}]
  wait_signal: [{name: restore, command: [box, ask, two, memory.get, '{"level":"agent","key":"context"}']}]
`), "w.yaml", "")
	require.NoError(t, err)
	c, _, err := s.claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
	require.NoError(t, err)
	w, _, err := s.waits.Start(t.Context(), c.ID, wait.Request{Type: "review", Timeout: time.Minute})
	require.NoError(t, err)
	_, err = s.waits.Signal(t.Context(), c.ID, "", nil)
	require.NoError(t, err)
	w, err = s.waits.Follow(t.Context(), w.ID)
	require.NoError(t, err)
	require.Equal(t, wait.Signalled, w.State)
	runs, err := s.db.Runs(t.Context(), hooks.RunFilter{Claim: c.ID})
	require.NoError(t, err)
	require.Len(t, runs, 2)
	for _, r := range runs {
		require.Equal(t, hooks.Succeeded, r.State, "%+v", r)
	}
	require.Contains(t, runs[1].Stdout.Head, `"value":{"line":12}`)
}
