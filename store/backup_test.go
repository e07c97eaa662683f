package store

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// A copy that is made while a server writes is whole, private, and opens; what
// is there is not overwritten.
func TestBackup(t *testing.T) {
	dir := t.TempDir()
	path, into := filepath.Join(dir, "hostler.db"), filepath.Join(dir, "copy.db")
	db, err := Open(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, db.SetMeta(t.Context(), "before", "1"))
	ctx, stop := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error {
		for ctx.Err() == nil {
			if err := db.SetMeta(t.Context(), "busy", "x"); err != nil {
				return err
			}
		}
		return nil
	})
	err = Backup(t.Context(), path, into)
	stop()
	require.NoError(t, err)
	require.NoError(t, g.Wait())
	require.NoError(t, db.SetMeta(t.Context(), "after", "1"))
	require.NoError(t, db.Close())

	info, err := os.Stat(into)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	left, err := filepath.Glob(filepath.Join(dir, ".backup-*"))
	require.NoError(t, err)
	require.Empty(t, left)
	require.ErrorIs(t, Backup(t.Context(), path, into), os.ErrExist)
	require.ErrorIs(t, Backup(t.Context(), filepath.Join(dir, "none.db"), filepath.Join(dir, "x")), ErrNoFile)

	restored, err := Open(t.Context(), into)
	require.NoError(t, err)
	for key, want := range map[string]string{"before": "1", "after": ""} {
		got, err := restored.Meta(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, want, got, key)
	}
	about, err := restored.About(t.Context())
	require.NoError(t, err)
	require.Equal(t, "SQLite", about.Kind)
	require.NotZero(t, about.Schema)
	require.NotZero(t, about.Bytes)
	require.NotEmpty(t, about.Version)
	servers, err := restored.Serving(t.Context())
	require.NoError(t, err)
	require.Zero(t, servers)
	_, err = restored.Register(t.Context(), "here")
	require.NoError(t, err)
	servers, err = restored.Serving(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, servers)
	require.NoError(t, restored.Close())
}

// A copy takes the place of a database that no server uses, with all that
// belongs to it, and what was there is kept whole.
func TestRestore(t *testing.T) {
	dir := t.TempDir()
	path, from := filepath.Join(dir, "hostler.db"), filepath.Join(dir, "copy.db")
	db, err := Open(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, db.SetMeta(t.Context(), "time", "then"))
	require.NoError(t, Backup(t.Context(), path, from))
	require.NoError(t, db.SetMeta(t.Context(), "time", "now"))
	_, err = Restore(t.Context(), from, path)
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, db.Close())
	_, err = Restore(t.Context(), filepath.Join(dir, "none.db"), path)
	require.ErrorIs(t, err, ErrNoFile)

	replaced, err := Restore(t.Context(), from, path)
	require.NoError(t, err)
	for file, want := range map[string]string{path: "then", from: "then", replaced: "now"} {
		db, err := Open(t.Context(), file)
		require.NoError(t, err)
		got, err := db.Meta(t.Context(), "time")
		require.NoError(t, err)
		require.Equal(t, want, got, file)
		require.NoError(t, db.Close())
	}
	// Where there is none, it is put all the same.
	replaced, err = Restore(t.Context(), from, filepath.Join(dir, "new", "hostler.db"))
	require.NoError(t, err)
	require.Empty(t, replaced)
}
