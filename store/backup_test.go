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
	require.ErrorIs(t, Backup(t.Context(), filepath.Join(dir, "none.db"), filepath.Join(dir, "x")), ErrNoDatabase)

	restored, err := Open(t.Context(), into)
	require.NoError(t, err)
	for key, want := range map[string]string{"before": "1", "after": ""} {
		got, err := restored.Meta(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, want, got, key)
	}
	about, err := restored.Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, "SQLite", about.Kind)
	require.NotZero(t, about.Schema)
	require.NotZero(t, about.Bytes)
	require.NotEmpty(t, about.Version)
	servers, err := restored.CountLive(t.Context())
	require.NoError(t, err)
	require.Zero(t, servers)
	_, err = restored.Register(t.Context(), "here")
	require.NoError(t, err)
	servers, err = restored.CountLive(t.Context())
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
	require.ErrorIs(t, err, ErrNoDatabase)

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

// A database that is displaced by a process that is killed before the copy is in
// its place is still there, whole, with what was in its side files.
func TestRestoreKilled(t *testing.T) {
	dir := t.TempDir()
	live, path := filepath.Join(dir, "live.db"), filepath.Join(dir, "hostler.db")
	db, err := Open(t.Context(), live)
	require.NoError(t, err)
	require.NoError(t, db.SetMeta(t.Context(), "time", "now"))
	for _, side := range []string{"", "-wal"} { // as if its server had been killed
		data, err := os.ReadFile(live + side)
		require.NoError(t, err)
		require.NotEmpty(t, data)
		require.NoError(t, os.WriteFile(path+side, data, 0o600))
	}
	require.NoError(t, db.Close())

	replaced := path + ".replaced"
	require.NoError(t, moveAside(t.Context(), path, replaced))
	require.NoFileExists(t, path+"-wal")
	for _, file := range []string{path, replaced} {
		db, err := Open(t.Context(), file)
		require.NoError(t, err)
		got, err := db.Meta(t.Context(), "time")
		require.NoError(t, err)
		require.Equal(t, "now", got, file)
		require.NoError(t, db.Close())
	}
}

// A copy takes the place of a file that is no database any more, which is kept
// as it is, side files and all.
func TestRestoreDamaged(t *testing.T) {
	dir := t.TempDir()
	path, from := filepath.Join(dir, "hostler.db"), filepath.Join(dir, "copy.db")
	db, err := Open(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, Backup(t.Context(), path, from))
	require.NoError(t, db.Close())
	for _, side := range []string{"", "-wal"} {
		require.NoError(t, os.WriteFile(path+side, []byte("not a database"+side), 0o600))
	}
	replaced, err := Restore(t.Context(), from, path)
	require.NoError(t, err)
	for _, side := range []string{"", "-wal"} {
		kept, err := os.ReadFile(replaced + side)
		require.NoError(t, err)
		require.Equal(t, "not a database"+side, string(kept))
	}
	db, err = Open(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}
