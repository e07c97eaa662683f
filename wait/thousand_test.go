package wait_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/dispatch"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/dbtest"
	"github.com/hostler/hostler/store/postgrestest"
	"github.com/hostler/hostler/store/storetest"
	"github.com/hostler/hostler/wait"
	"github.com/hostler/hostler/workload"
)

// noHooks has workloads without hooks.
type noHooks struct{}

func (noHooks) Revision(context.Context, string, string) (*workload.Workload, pool.Record, error) {
	return &workload.Workload{ID: "w"}, pool.Record{}, nil
}

// replica is a server's service of waits with its own connection to the database.
type replica struct {
	db   *store.DB
	wait *wait.Service
	stop func()
}

// startServer starts a server on a database, which stops with the test.
func startServer(t *testing.T, dsn string) replica {
	t.Helper()
	db, err := store.Open(t.Context(), dsn)
	require.NoError(t, err)
	_, err = db.Register(t.Context(), "test")
	require.NoError(t, err)
	s := wait.New(db, wait.Options{Claims: db, Workloads: noHooks{}, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error { return s.Run(ctx) })
	g.Go(func() error { return dispatch.New(db, slog.New(slog.DiscardHandler), s.EventHandlers()).Run(ctx) })
	stop := sync.OnceFunc(func() { cancel(); _ = g.Wait() })
	t.Cleanup(func() { stop(); _ = db.Close() })
	return replica{db, s, stop}
}

// startThousand begins a thousand waits of a hundred claims, with timeouts from 10
// to 14.5 seconds.
func startThousand(t *testing.T, s replica) {
	t.Helper()
	storetest.PutWorkloads(t, s.db, "w")
	var claims []claim.Claim
	for n := range 100 {
		claims = append(claims, activeClaim(t, s.db, fmt.Sprint("t", n)))
	}
	var g errgroup.Group
	g.SetLimit(50)
	for n := range 1000 {
		g.Go(func() error {
			timeout := 10*time.Second + time.Duration(n%10)*500*time.Millisecond
			_, _, err := s.wait.Start(t.Context(), claims[n%100].ID, request(fmt.Sprint("n", n/100), timeout))
			return err
		})
	}
	require.NoError(t, g.Wait())
}

// requireThousandEnds waits until each of a thousand waits has timed out once. That
// is by timers: no server lists the waits again. On an idle machine it is within a
// second of the deadlines: the log has the figures.
func requireThousandEnds(t *testing.T, db *store.DB) {
	t.Helper()
	testenv.AwaitTrue(t, "the ends of all waits", func() bool {
		open, err := db.OpenWaits(t.Context())
		require.NoError(t, err)
		return len(open) == 0
	})
	all, err := db.Waits(t.Context(), wait.Filter{States: []wait.State{wait.TimedOut}})
	require.NoError(t, err)
	require.Len(t, all, 1000)
	var late []time.Duration
	for _, w := range all {
		late = append(late, w.Exceeded())
	}
	slices.Sort(late)
	t.Logf("ends after their deadlines: half within %s, 95 %% within %s, all within %s", late[500], late[950], late[999])
	page, err := db.Events(t.Context(), activity.Filter{Types: []activity.Type{activity.WaitTimedOut}}, 0, 10000)
	require.NoError(t, err)
	require.Len(t, page.Items, 1000)
}

// Of three servers on one database, the one that began a thousand waits of a hundred
// claims terminates. The others end them.
func TestServerIsLost(t *testing.T) {
	postgrestest.Server(t)
	dsn := postgrestest.Schema(t)
	first := startServer(t, dsn)
	startServer(t, dsn)
	other := startServer(t, dsn)
	startThousand(t, first)
	first.stop()
	requireThousandEnds(t, other.db)
}

// A server terminates that has begun a thousand waits of a hundred claims. The next one
// ends them.
func TestRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := dbtest.Path(t)
		first := startServer(t, path)
		startThousand(t, first)
		first.stop()
		require.NoError(t, first.db.Close())
		next := startServer(t, path)
		sleep(15 * time.Second)
		requireThousandEnds(t, next.db)
	})
}

// activeClaim adds a claim that has a container and is active.
func activeClaim(t *testing.T, db *store.DB, tenant string) claim.Claim {
	t.Helper()
	container, id := uuid.NewString(), uuid.NewString()
	require.NoError(t, db.AddContainer(t.Context(), pool.Container{ID: container, Workload: "w", Revision: "r"}, 1000))
	_, err := db.UpdateContainer(t.Context(), pool.Ready(container, func(c *pool.Container) { c.Health = pool.Healthy }))
	require.NoError(t, err)
	_, err = db.Reserve(t.Context(), claim.Reservation{Claim: id, Workload: "w", Tenant: tenant, Revision: "r", Reuse: workload.ReuseWipe})
	require.NoError(t, err)
	c, err := db.UpdateClaim(t.Context(), claim.Activate(id, claim.Fresh, nil))
	require.NoError(t, err)
	return c
}
