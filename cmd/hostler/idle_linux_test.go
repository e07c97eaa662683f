package main

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/dbtest"
)

// idleWorkload has everything that has a due time, far away, and a health check.
const idleWorkload = `id: w
image: box
command: [box, idle]
healthcheck: { test: [CMD, box, echo, healthy], interval: 1m }
pool: { min_idle: 2, max_size: 4, claim_idle_ttl: 4h, release_failed_ttl: 24h }
volumes: { state: { target: /data } }
sync: { sink: { type: file }, policy: { interval: 24h } }
`

// An idle server asks the database for nothing, neither with idle containers nor with
// claims that end later: in an hour, with a health check each minute. So no loop may
// poll: it sleeps until something is due, and events wake it.
func TestIdleServerAsksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startIdle(t)
		requireIdle := func(what string) {
			t.Helper()
			<-time.After(2 * pruneInterval) // what events cause has happened
			synctest.Wait()
			before := s.db.Calls()
			<-time.After(time.Hour)
			synctest.Wait()
			require.Equal(t, before, s.db.Calls(), what)
		}
		requireIdle("without a workload")
		_, err := s.pools.Apply(t.Context(), []byte(idleWorkload), "w.yaml", "")
		require.NoError(t, err)
		requireIdle("with idle containers")
		status, err := s.pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Equal(t, 2, status.Containers[pool.Idle])
		c, _, err := s.claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada", ExpiresIn: 48 * time.Hour})
		require.NoError(t, err)
		requireIdle("with an active claim")
		<-time.After(2 * time.Hour)
		ended, err := s.db.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Released, ended.State)
		require.Equal(t, "tenant idle for 4h0m0s", ended.Reason)
		requireIdle("after the release")
	})
}

// startIdle starts all loops of a server on a database of its own.
func startIdle(t *testing.T) *server {
	t.Helper()
	db, err := store.Open(t.Context(), dbtest.Path(t))
	require.NoError(t, err)
	requests, err := serveConfig{}.requests()
	require.NoError(t, err)
	rt := fake.New()
	db.SetProtocols(rt.Protocols())
	sinks := snapshot.NewSinks(snapshot.PathPolicy{State: t.TempDir()}, nil)
	s := assemble(db, closableRuntime{rt}, sinks, requests, nil, 0, slog.New(slog.DiscardHandler))
	c := serveConfig{retention: 30 * 24 * time.Hour}
	require.NoError(t, s.loadCredentials(t.Context(), c, make([]byte, 32)))
	s.inside = s.insideRequests(api.New(s.apiOptions(t.TempDir())))
	require.NoError(t, s.recoverWork(t.Context(), db.Self()))
	ctx, stop := context.WithCancel(context.Background())
	g, ctx := errgroup.WithContext(ctx)
	s.runLoops(ctx, g, c)
	t.Cleanup(func() {
		stop()
		require.NoError(t, g.Wait())
		require.NoError(t, db.Close())
	})
	return s
}
