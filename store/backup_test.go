package store

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
)

// A copy that is made while a server writes is complete and private, and can be
// opened. Existing files are not overwritten.
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

// A copy replaces a database that no server uses, with its side files, and the
// replaced database is kept complete.
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
	other := filepath.Join(dir, "other.db")
	require.NoError(t, Backup(t.Context(), from, other))
	raw, err := sql.Open("sqlite", uri(other, nil))
	require.NoError(t, err)
	_, err = raw.ExecContext(t.Context(), putMeta, "schema", "1")
	require.NoError(t, errors.Join(err, raw.Close()))
	_, err = Restore(t.Context(), other, path)
	require.ErrorIs(t, err, ErrSchema, "a copy of another version")

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
	// It is also restored where there is no database.
	replaced, err = Restore(t.Context(), from, filepath.Join(dir, "new", "hostler.db"))
	require.NoError(t, err)
	require.Empty(t, replaced)
}

// Every path that names a file for the system names the same one here.
func TestBackupPaths(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	require.NoError(t, err)
	for _, dir := range []string{"d1", "./d2", "../" + filepath.Base(here) + "/d3", "a:b", "file:d4", "d5/ä ?x=1#%41", filepath.Join(here, "d6"), "/" + filepath.Join(here, "d7")} {
		path, into := dir+"/hostler.db", dir+".copy"
		db, err := Open(t.Context(), path)
		require.NoError(t, err, dir)
		require.NoError(t, db.SetMeta(t.Context(), "dir", dir))
		require.NoError(t, db.Close())
		require.NoError(t, Backup(t.Context(), path, into), dir)
		replaced, err := Restore(t.Context(), into, path)
		require.NoError(t, err, dir)
		require.FileExists(t, replaced)
		db, err = Open(t.Context(), path)
		require.NoError(t, err, dir)
		got, err := db.Meta(t.Context(), "dir")
		require.NoError(t, err, dir)
		require.Equal(t, dir, got)
		require.NoError(t, db.Close())
	}
}

// A copy has the cursors with the log: each event after a cursor is handled once
// in the restored database.
func TestRestoreKeepsCursors(t *testing.T) {
	dir := t.TempDir()
	path, from := filepath.Join(dir, "hostler.db"), filepath.Join(dir, "copy.db")
	db, err := Open(t.Context(), path)
	require.NoError(t, err)
	var handled []string
	handle := func(_ Tx, events []activity.Event) error {
		for _, e := range events {
			handled = append(handled, e.Message)
		}
		return nil
	}
	add := func(message string) {
		require.NoError(t, db.Append(t.Context(), activity.Event{Type: activity.PoolWarning, Message: message}))
	}
	advance := func() {
		_, err := db.Advance(t.Context(), "c", 10, handle)
		require.NoError(t, err)
	}
	add("before the cursor")
	advance()
	add("handled before the copy")
	advance()
	add("only in the log")
	require.NoError(t, Backup(t.Context(), path, from))
	advance()
	require.NoError(t, db.Close())
	_, err = Restore(t.Context(), from, path)
	require.NoError(t, err)
	db, err = Open(t.Context(), path)
	require.NoError(t, err)
	handled = nil
	advance()
	advance()
	require.Equal(t, []string{"only in the log"}, handled)
	require.NoError(t, db.Close())
}

// When a process is killed between moving a database aside and putting the copy
// in its place, the database still exists, complete with the contents of its
// side files.
func TestRestoreKilled(t *testing.T) {
	dir := t.TempDir()
	live, path := filepath.Join(dir, "live.db"), filepath.Join(dir, "hostler.db")
	db, err := Open(t.Context(), live)
	require.NoError(t, err)
	require.NoError(t, db.SetMeta(t.Context(), "time", "now"))
	for _, side := range []string{"", "-wal"} { // as after its server was killed
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

// A copy replaces a file that is not a valid database. That file and its side
// files are kept unchanged.
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
