package store_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/store"
)

// openRaw opens the file next to the store's own connections.
func openRaw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// Two servers on one file would each work on state that the other has changed.
func TestOpenTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hostler.db")
	first, err := store.Open(t.Context(), path)
	require.NoError(t, err)
	_, err = store.Open(t.Context(), path)
	require.ErrorIs(t, err, store.ErrInUse)
	require.ErrorContains(t, err, "process "+strconv.Itoa(os.Getpid()))
	require.NoError(t, first.Close())
	second, err := store.Open(t.Context(), "sqlite:"+path)
	require.NoError(t, err)
	require.NoError(t, second.Close())
}

// All that was written exists after a restart, and the log continues.
func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a ?#%20folder", "hostler.db")
	for n := int64(1); n <= 3; n++ {
		db, err := store.Open(t.Context(), path)
		require.NoError(t, err)
		require.NoError(t, db.Append(t.Context(), activity.Event{Type: activity.PoolWarning, Message: "m"}))
		p, err := db.Events(t.Context(), activity.Filter{}, 0, 0)
		require.NoError(t, err)
		require.Len(t, p.Items, int(n))
		require.Equal(t, n, p.Next)
		require.NoError(t, db.Close())
	}
	_, err := os.Stat(path)
	require.NoError(t, err, "the file is at the given path")
}

// The file holds the output of tenants' hooks.
func TestFileIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	db, err := store.Open(t.Context(), filepath.Join(dir, "hostler.db"))
	require.NoError(t, err)
	defer db.Close() //nolint:errcheck // it only reads
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 4, "the database, its log and index, and the lock")
	for _, f := range files {
		info, err := f.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, f.Name())
	}
}

// A database that cannot be opened is refused with the reason.
func TestOpenRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T, path string)
		want    error
	}{
		"not a database": {func(t *testing.T, path string) {
			text := make([]byte, 8192)
			copy(text, "this is a text and not a database, and it is long enough to be checked")
			require.NoError(t, os.WriteFile(path, text, 0o600))
		}, store.ErrCorrupt},
		"a directory": {func(t *testing.T, path string) {
			require.NoError(t, os.Mkdir(path, 0o700))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "hostler.db")
			c.prepare(t, path)
			_, err := store.Open(t.Context(), path)
			require.Error(t, err)
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
			}
			_, err = store.Open(t.Context(), path)
			require.NotErrorIs(t, err, store.ErrInUse, "the lock was released")
		})
	}
	_, err := store.Open(t.Context(), "mysql://localhost/hostler")
	require.ErrorContains(t, err, "mysql")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = store.Open(ctx, filepath.Join(t.TempDir(), "hostler.db"))
	require.ErrorIs(t, err, context.Canceled)
}
