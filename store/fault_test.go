package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/pool"
)

func openTest(t *testing.T) *DB {
	t.Helper()
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "hostler.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// setPragma sets a pragma of the writer's connection, outside any transaction.
func setPragma(t *testing.T, db *DB, pragma string) {
	t.Helper()
	require.NoError(t, db.writer.update(t.Context(), func(tx *tx) error {
		_, err := tx.exec(pragma)
		return err
	}))
}

// Every caller whose change is lost to a full disk gets ErrDiskFull, and the
// store continues when there is space again. SQLite undoes the whole
// transaction by itself here, with the changes of all callers.
func TestDiskFullIsReported(t *testing.T) {
	db := openTest(t)
	var pages int
	require.NoError(t, db.read.QueryRow(`PRAGMA page_count`).Scan(&pages))
	setPragma(t, db, fmt.Sprintf(`PRAGMA max_page_count = %d`, pages+4))
	long := strings.Repeat("x", 2000)
	answers := make([]error, 100)
	var g errgroup.Group
	for i := range answers {
		g.Go(func() error {
			answers[i] = db.Append(t.Context(), activity.Event{Type: activity.PoolWarning, Message: long})
			return nil
		})
	}
	require.NoError(t, g.Wait())
	kept := int64(0)
	for _, err := range answers {
		if err == nil {
			kept++
			continue
		}
		require.ErrorIs(t, err, ErrDiskFull)
	}
	require.Less(t, kept, int64(100))
	last, err := db.LastSeq(t.Context())
	require.NoError(t, err)
	require.Equal(t, kept, last, "as many events as were acknowledged")

	setPragma(t, db, `PRAGMA max_page_count = 1000000`)
	require.NoError(t, db.Append(t.Context(), activity.Event{Type: activity.PoolWarning, Message: long}))
	p, err := db.Events(t.Context(), activity.Filter{}, 0, 0)
	require.NoError(t, err)
	require.Len(t, p.Items, int(kept)+1)
}

// A batch that cannot be committed is lost as a whole, and every caller gets
// the error, also one that was refused because of another change of the same
// batch, which was undone.
func TestFailedBatchCommitIsReported(t *testing.T) {
	db := openTest(t)
	w := db.writer.(*sqliteWriter)
	begun, proceed := make(chan struct{}), make(chan struct{})
	var first, batch errgroup.Group
	first.Go(func() error {
		return w.update(context.Background(), func(*tx) error {
			close(begun)
			<-proceed
			return nil
		})
	})
	<-begun
	answers := make([]error, 3)
	for i, change := range []func(*tx) error{
		func(t *tx) error { return t.execLater(putMeta, "k", "v") },
		func(t *tx) error {
			var there int
			if err := t.query(`SELECT count(*) FROM meta WHERE key = 'k'`).Scan(&there); err != nil || there == 0 {
				return errors.Join(err, errors.New("the previous change was not made"))
			}
			return pool.ErrConflict
		},
		func(t *tx) error {
			return t.addEvents(activity.Event{Message: "an event without a type cannot be stored"})
		},
	} {
		batch.Go(func() error {
			answers[i] = w.update(context.Background(), change)
			return nil
		})
		testenv.AwaitTrue(t, "the change to be queued", func() bool { // in this order
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.queue) == i+1
		})
	}
	close(proceed)
	require.NoError(t, first.Wait())
	require.NoError(t, batch.Wait())
	for _, err := range answers {
		require.ErrorContains(t, err, "append event")
		require.NotErrorIs(t, err, pool.ErrConflict)
	}
	v, err := db.Meta(t.Context(), "k")
	require.NoError(t, err)
	require.Empty(t, v)
}

// When another program has locked the file, the error is ErrLocked, and no
// change is half done.
func TestLockedByAnotherProgram(t *testing.T) {
	db := openTest(t)
	setPragma(t, db, `PRAGMA busy_timeout = 10`)
	var path string
	require.NoError(t, db.read.QueryRow(`SELECT file FROM pragma_database_list`).Scan(&path))
	other, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer other.Close() //nolint:errcheck // only for the test
	conn, err := other.Conn(t.Context())
	require.NoError(t, err)
	_, err = conn.ExecContext(t.Context(), `BEGIN IMMEDIATE`)
	require.NoError(t, err)
	require.ErrorIs(t, db.SetMeta(t.Context(), "k", "v"), ErrLocked)
	_, err = conn.ExecContext(t.Context(), `ROLLBACK`)
	require.NoError(t, err)
	v, err := db.Meta(t.Context(), "k")
	require.NoError(t, err)
	require.Empty(t, v)
	require.NoError(t, db.SetMeta(t.Context(), "k", "v"))
}

// Followers can read an event before the call that wrote it returns: a caller
// that acts on the result finds the log complete.
func TestEventsVisibleBeforeReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t)
		var returned atomic.Bool
		published := 0
		writer := db.writer.(*sqliteWriter)
		publish := writer.publish
		writer.publish = func(events []activity.Event) {
			synctest.Wait() // until all other goroutines wait for this one
			require.False(t, returned.Load())
			published += len(events)
			publish(events)
		}
		require.NoError(t, db.Append(t.Context(), activity.Event{Type: activity.PoolWarning, Message: "m"}))
		returned.Store(true)
		require.Equal(t, 1, published)
	})
}

// Acknowledged changes survive a power failure only with these settings. Every
// connection that may write has them, not only the first.
func TestSQLiteDurabilitySettings(t *testing.T) {
	db := openTest(t)
	want := map[string]string{
		"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "5000",
	}
	settings := func(query func(string, ...any) row) (got map[string]string, err error) {
		got = map[string]string{}
		for name := range want {
			value, wrong := scanText(query(`PRAGMA ` + name))
			got[name], err = value, errors.Join(err, wrong)
		}
		return got, err
	}
	var got map[string]string
	require.NoError(t, db.writer.update(t.Context(), func(tx *tx) (err error) {
		got, err = settings(tx.query)
		return err
	}))
	require.Equal(t, want, got)
	var path string
	require.NoError(t, db.read.QueryRow(`SELECT file FROM pragma_database_list`).Scan(&path))
	write, err := sql.Open("sqlite", uri(path, writerSettings))
	require.NoError(t, err)
	defer write.Close() //nolint:errcheck // only for the test
	for range 3 {
		conn, err := write.Conn(t.Context())
		require.NoError(t, err)
		defer conn.Close() //nolint:errcheck // each stays open, so that the next one is new
		got, err := settings(func(query string, args ...any) row { return conn.QueryRowContext(t.Context(), query, args...) })
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err = db.read.Exec(`DELETE FROM events`)
	require.Error(t, err, "readers cannot write")
}

// The schema knows the same states as the program.
func TestSchemaKnowsEveryState(t *testing.T) {
	db := openTest(t)
	require.NoError(t, db.writer.update(t.Context(), func(tx *tx) error {
		for i, s := range pool.States() {
			k := pool.Container{ID: fmt.Sprint("k", i), Workload: "w", State: s}
			if s == pool.Claimed {
				k.Claim, k.Tenant = "c", "t"
			}
			if err := execLater(tx, insertContainer, &k, ""); err != nil {
				return err
			}
		}
		for i, s := range claim.States() {
			c := claim.Claim{ID: fmt.Sprint("c", i), Workload: "w", Tenant: fmt.Sprint("t", i), State: s, Container: fmt.Sprint("k", i)}
			if _, err := addClaim(tx, normalized(c)); err != nil {
				return err
			}
		}
		for i, s := range hooks.RunStates() {
			r := hooks.Run{ID: fmt.Sprint("r", i), Attempt: 1, State: s}
			if s != hooks.Running {
				r.EndedAt = &tx.now
			}
			if err := addRun(tx, r); err != nil {
				return err
			}
		}
		return nil
	}))
	for _, s := range claim.States() {
		require.Equal(t, s.IsLive(), strings.Contains(liveCondition, "'"+string(s)+"'"), s)
	}
	for _, s := range hooks.RunStates() {
		require.Contains(t, runStateEvents, s)
	}
}

func TestCompareSQLiteVersions(t *testing.T) {
	for _, c := range []struct {
		version string
		want    bool
	}{
		{"3.51.3", false}, {"3.51.2", true}, {"3.9.10", true}, {"3.52.0", false}, {"4.0.0", false}, {"?", true},
	} {
		require.Equal(t, c.want, isOlder(c.version, minSQLiteVersion), c.version)
	}
}
