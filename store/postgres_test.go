package store_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/postgrestest"
	"github.com/hostler/hostler/store/storetest"
)

// openDB opens a database and closes it with the test.
func openDB(t *testing.T, url string) *store.DB {
	t.Helper()
	db := openURL(t, url)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func warning(message string) activity.Event {
	return activity.Event{Type: activity.PoolWarning, Message: message}
}

// A kill at any moment loses no change that was acknowledged.
func TestPostgresCrash(t *testing.T) {
	const named = "STORE_TEST_CRASH_URL" // how the killed process finds it
	if os.Getenv(named) == "" {
		t.Setenv(named, postgrestest.Schema(t)+"&application_name=crash"+uuid.NewString())
	}
	target := os.Getenv(named)
	storetest.Crash(t,
		func(t *testing.T, _ string) storetest.Store { return openURL(t, target) },
		func(t *testing.T, _ string) { awaitDisconnected(t, target) })
}

// awaitDisconnected waits until the database server has noticed that a client
// has disconnected.
func awaitDisconnected(t *testing.T, target string) {
	t.Helper()
	u, err := url.Parse(target)
	require.NoError(t, err)
	query := fmt.Sprintf(`SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s'`,
		u.Query().Get("application_name"))
	testenv.AwaitTrue(t, "the sessions to end", func() bool { return postgrestest.QueryInt(t, postgrestest.Server(t), query) == 0 })
}

// Events of every server reach the followers of every server. None is missed,
// and none arrives out of order.
func TestFollowersOnSeveralServers(t *testing.T) {
	target := postgrestest.Schema(t)
	servers := []*store.DB{openDB(t, target), openDB(t, target), openDB(t, target)}
	const each = 200
	want := int64(len(servers) * 2 * each)
	g, ctx := errgroup.WithContext(t.Context())
	for i, s := range servers {
		for w := range 2 {
			g.Go(func() error {
				for n := range each {
					if err := s.Append(ctx, warning(fmt.Sprint(i, w, n))); err != nil {
						return err
					}
				}
				return nil
			})
			g.Go(func() error { return storetest.Follow(ctx, s, want) })
		}
	}
	require.NoError(t, g.Wait())
}

// A page that is read after the number of the last event has that event, also where
// the notification of it has not arrived.
func TestEventsOfOtherServersAreRead(t *testing.T) {
	target := postgrestest.Schema(t)
	db := openDB(t, target)
	require.NoError(t, db.Append(t.Context(), warning("here")))
	// Another server's commit, without the notification.
	postgrestest.Exec(t, target, `UPDATE log SET last = 2; INSERT INTO events (seq, time, type, workload, container, tenant, claim, run, point, message, data)
		SELECT 2, time, type, workload, container, tenant, claim, run, point, 'there', data FROM events WHERE seq = 1`)
	last, err := db.LastSeq(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, last)
	p, err := db.Events(t.Context(), activity.Filter{}, 0, 10)
	require.NoError(t, err)
	require.Len(t, p.Items, 2)
	require.Equal(t, "there", p.Items[1].Message)
}

// A follower whose server has lost its connection receives what was committed
// in the meantime, and what is committed later.
func TestFollowerAfterLostConnection(t *testing.T) {
	t.Parallel()
	target := postgrestest.Schema(t)
	proxy := postgrestest.NewProxy(t, target)
	near, far := openDB(t, target), openDB(t, proxy.URL())
	require.NoError(t, near.Append(t.Context(), warning("before")))
	require.NoError(t, storetest.Follow(t.Context(), far, 1))
	proxy.Cut()
	require.NoError(t, near.Append(t.Context(), warning("during")))
	proxy.Restore()
	require.NoError(t, storetest.Follow(t.Context(), far, 2))
	require.NoError(t, near.Append(t.Context(), warning("after")))
	require.NoError(t, storetest.Follow(t.Context(), far, 3))
}

// Callers do not notice broken connections.
func TestBrokenConnectionsAreRetried(t *testing.T) {
	target := postgrestest.Schema(t)
	proxy := postgrestest.NewProxy(t, target)
	db := openDB(t, proxy.URL())
	const writers, each = 8, 60
	var done atomic.Int64
	g, ctx := errgroup.WithContext(t.Context())
	for w := range writers {
		g.Go(func() error {
			for n := range each {
				if err := db.Append(ctx, warning(fmt.Sprint(w, " ", n))); err != nil {
					return err
				}
				if _, err := db.Containers(ctx, pool.ContainerFilter{}); err != nil {
					return err
				}
				if done.Add(1)%40 == 0 {
					proxy.BreakConnections()
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	require.NoError(t, storetest.Follow(t.Context(), db, writers*each))
	seen := map[string]bool{}
	p, err := db.Events(t.Context(), activity.Filter{}, 0, 0)
	require.NoError(t, err)
	for _, e := range p.Items {
		require.False(t, seen[e.Message], "%q was written twice", e.Message)
		seen[e.Message] = true
	}
	require.Len(t, seen, writers*each)
}

// A change whose answer was lost is made exactly once, and the caller gets its
// result.
func TestLostCommitReply(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(*postgrestest.Proxy)
		runs int
	}{
		"after the commit":  {(*postgrestest.Proxy).DropReplies, 1},
		"before the commit": {(*postgrestest.Proxy).DropRequests, 2},
	} {
		t.Run(name, func(t *testing.T) {
			target := postgrestest.Schema(t)
			proxy := postgrestest.NewProxy(t, target)
			db := openDB(t, proxy.URL()+"&pool_max_conns=1")
			storetest.PutWorkloads(t, db, "w")
			runs := 0
			idle := func(id string) (pool.Container, error) {
				require.NoError(t, db.AddContainer(t.Context(), pool.Container{ID: id, Workload: "w", Revision: "r"}, 2))
				return db.UpdateContainer(t.Context(), pool.Transition{
					ID: id, From: []pool.State{pool.Creating}, To: pool.Idle,
					Set: func(k *pool.Container) {
						if runs++; runs == 2 {
							c.lose(proxy)
						}
					},
					Events: []activity.Event{{Type: activity.ContainerCreated, Message: "idle"}},
				})
			}
			// The first call prepares the statements, so that only the commit
			// of the second is in flight.
			_, err := idle("first")
			require.NoError(t, err)
			k, err := idle("second")
			require.NoError(t, err)
			require.Equal(t, pool.Idle, k.State)
			require.Equal(t, c.runs, runs-1)
			require.NoError(t, storetest.Follow(t.Context(), db, 4))
			last, err := db.LastSeq(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 4, last)
		})
	}
}

// Readers and writers get ErrUnavailable while the database is unreachable, and
// the store continues when it is back.
func TestDatabaseUnavailable(t *testing.T) {
	t.Parallel()
	proxy := postgrestest.NewProxy(t, postgrestest.Schema(t))
	db := openDB(t, proxy.URL())
	proxy.Cut()
	var g errgroup.Group
	var wrote, read error
	g.Go(func() error { wrote = db.SetMeta(t.Context(), "k", "v"); return nil })
	g.Go(func() error { _, read = db.Meta(t.Context(), "k"); return nil })
	require.NoError(t, g.Wait())
	require.ErrorIs(t, wrote, store.ErrUnavailable)
	require.ErrorIs(t, read, store.ErrUnavailable)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, db.SetMeta(ctx, "k", "v"), context.DeadlineExceeded)

	proxy.Restore()
	require.NoError(t, db.SetMeta(t.Context(), "k", "w"))
	v, err := db.Meta(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "w", v)
}

// A database that a server has locked exclusively cannot be locked by another
// one until it is closed.
func TestLockExclusive(t *testing.T) {
	target := postgrestest.Schema(t)
	first, second := openURL(t, target), openDB(t, target)
	require.NoError(t, first.LockExclusive(t.Context()))
	require.ErrorIs(t, second.LockExclusive(t.Context()), store.ErrInUse)
	require.NoError(t, first.Close())
	require.NoError(t, second.LockExclusive(t.Context()))
}

// Many servers that start concurrently on an empty database create one schema.
func TestConcurrentOpen(t *testing.T) {
	target := postgrestest.Schema(t)
	var g errgroup.Group
	for range 5 {
		g.Go(func() error {
			db, err := store.Open(t.Context(), target)
			if err != nil {
				return err
			}
			return db.Close()
		})
	}
	require.NoError(t, g.Wait())
}

// A database that cannot be opened is refused with the reason.
func TestPostgresRefuses(t *testing.T) {
	target := postgrestest.Schema(t)
	_, err := store.Open(t.Context(), strings.Replace(target, "search_path=test_", "search_path=nowhere_", 1))
	require.ErrorContains(t, err, "search_path")
	_, err = store.Open(t.Context(), "postgres://127.0.0.1:1/hostler")
	require.ErrorIs(t, err, store.ErrUnavailable)
}

// No error contains the password, whatever is wrong with the URL.
func TestPasswordIsSecret(t *testing.T) {
	const secret = "swordfish"
	for _, target := range []string{
		"postgres://me:" + secret + "@127.0.0.1:1/hostler",
		"postgres://me:" + secret + "@127.0.0.1:1/hostler?sslmode=nonsense",
		"postgres://me:" + secret + "@127.0.0.1:port/hostler",
		"postgres://me:" + secret + "%zz@127.0.0.1:1/hostler",
		"postgres://me:" + secret + "#@127.0.0.1:1/hostler",
		"postgres://me:" + secret + "/@127.0.0.1:1/hostler",
		"postgres://me:x" + secret + "@y@127.0.0.1:1/hostler",
		"postgresql://me@127.0.0.1:1/hostler?password=" + secret,
		"postgres://me@127.0.0.1:1/hostler?connect_timeout=x&password=" + secret,
		"postgres://me@127.0.0.1:1/hostler?sslpassword=" + secret + "&pool_max_conns=none",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := store.Open(ctx, target)
		cancel()
		require.Error(t, err)
		require.NotContains(t, err.Error(), secret)
		require.NotContains(t, store.Redact(target), secret)
	}
	require.Equal(t, "/var/lib/hostler/hostler.db", store.Redact("/var/lib/hostler/hostler.db"))
}

// After a failover to a standby that missed the last commits, readers get the
// events that were given the numbers of the lost ones, and learn of it.
func TestFailoverLosesEvents(t *testing.T) {
	target := postgrestest.Schema(t)
	proxy := postgrestest.NewProxy(t, target)
	db, other := openDB(t, proxy.URL()), openDB(t, target)
	for range 5 {
		require.NoError(t, db.Append(t.Context(), warning("lost")))
	}
	postgrestest.Exec(t, target, `DELETE FROM events WHERE seq > 3; UPDATE log SET last = 3`)
	require.NoError(t, other.Append(t.Context(), warning("real")))
	proxy.BreakConnections()
	testenv.AwaitTrue(t, "the database's event", func() bool {
		p, err := db.Events(t.Context(), activity.Filter{}, 3, 10)
		return err == nil && p.Rewinds == 1 && len(p.Items) == 1 && p.Items[0].Message == "real"
	})
}
