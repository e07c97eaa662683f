package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/membership"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/postgrestest"
	"github.com/hostler/hostler/store/storetest"
)

// renew makes an attempt to renew, which has a minute.
func renew(t *testing.T, db *store.DB) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := db.Renew(ctx, true)
	return err
}

// When all connections of a server become silent, its next renewal uses a new
// connection: those that were idle are recognized.
func TestRenewalOnSilentConnections(t *testing.T) {
	t.Parallel()
	proxy := postgrestest.NewProxy(t, postgrestest.Schema(t))
	db := openDB(t, proxy.URL())
	register(t, db)
	_, err := db.Campaign(t.Context(), time.Now())
	require.NoError(t, err)
	for range 5 {
		<-time.After(1100 * time.Millisecond) // an idle connection is checked after a second
		proxy.Silence()
		require.NoError(t, renew(t, db))
	}
}

// A renewal whose connection becomes silent in the middle ends with its time,
// and the next one is not blocked by what the first has locked.
func TestRenewalLosesItsConnection(t *testing.T) {
	t.Parallel()
	target := postgrestest.Schema(t)
	proxy := postgrestest.NewProxy(t, target)
	db, other := openDB(t, proxy.URL()), openDB(t, target)
	r := register(t, db)
	register(t, other)
	_, err := db.Campaign(t.Context(), time.Now())
	require.NoError(t, err)
	// The server takes a moment for the change of the row, in which the connection
	// is lost.
	await, resume := postgrestest.Stall(t, target, "replicas", "")
	var silencing errgroup.Group
	ctx, cancel := context.WithCancel(t.Context())
	silencing.Go(func() error { await(); proxy.Silence(); resume(); cancel(); return nil })
	_, err = db.Renew(ctx, true)
	require.NoError(t, silencing.Wait())
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, renew(t, db))
	_, err = other.Fence(t.Context(), r.ID, time.Now())
	require.ErrorIs(t, err, membership.ErrNotExpired)
}

// A change whose connections are all silent ends, and later ones are made.
func TestChangeOnSilentConnections(t *testing.T) {
	t.Parallel()
	proxy := postgrestest.NewProxy(t, postgrestest.Schema(t))
	db := openDB(t, proxy.URL())
	require.NoError(t, db.Append(t.Context(), warning("first")))
	<-time.After(1100 * time.Millisecond)
	proxy.Silence()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, db.Append(ctx, warning("second")))
	_, err := db.LastSeq(ctx)
	require.NoError(t, err)
}

// The renewals of a server whose changes occupy all of its connections are not
// delayed by them.
func TestRenewalDoesNotWaitForChanges(t *testing.T) {
	t.Parallel()
	target := postgrestest.Schema(t)
	db := openDB(t, target+"&pool_max_conns=1")
	register(t, db)
	require.NoError(t, db.Append(t.Context(), warning("first")))
	postgrestest.Exec(t, target, `INSERT INTO cursors (name, seq) VALUES ('slow', 0)`)
	await, resume := postgrestest.Stall(t, target, "cursors", "")
	done := make(chan error, 1)
	go func() {
		_, err := db.Advance(t.Context(), "slow", 10, func(store.Tx, []activity.Event) error { return nil })
		done <- err
	}()
	await()
	_, err := db.Campaign(t.Context(), time.Now())
	require.NoError(t, err)
	require.NoError(t, renew(t, db))
	resume()
	require.NoError(t, <-done)
}

// A server leaves while a change of it is being committed that begins work: its
// goroutines outlive its shutdown. Its row stays, so that another server resumes
// the work.
func TestDeregisterDuringChange(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	target := postgrestest.Schema(t)
	first, second, third := openDB(t, target), openDB(t, target), openDB(t, target)
	register(t, first)
	leaving := register(t, second)
	register(t, third)
	postgrestest.Exec(t, target, `INSERT INTO cursors (name, seq) VALUES ('slow', 0)`)
	require.NoError(t, first.Append(ctx, warning("first")))
	require.NoError(t, storetest.Follow(ctx, second, 1)) // Advance has an event
	late := reservation("late")
	_, err := first.Reserve(ctx, late)
	require.Error(t, err)
	// Advance offers a change from outside the package. A trigger makes the claim
	// this server's in the same transaction.
	postgrestest.Exec(t, target, `
		CREATE FUNCTION begin_work() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			UPDATE claims SET owner = '`+leaving.ID+`'; RETURN NEW; END $$;
		CREATE TRIGGER begin_work AFTER UPDATE ON cursors FOR EACH ROW EXECUTE FUNCTION begin_work()`)
	left := make(chan error, 1)
	_, err = second.Advance(ctx, "slow", 10, func(store.Tx, []activity.Event) error {
		go func() { left <- second.Deregister(context.WithoutCancel(ctx)) }()
		<-time.After(300 * time.Millisecond) // Deregister waits in the database
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, <-left)
	work, err := third.OwnedBy(ctx, leaving.ID)
	require.NoError(t, err)
	require.Equal(t, []string{late.Claim}, work.Claims)
	expired, err := third.Expired(ctx)
	require.NoError(t, err)
	require.Len(t, expired, 1, "its row is there: the leader takes over")
}
