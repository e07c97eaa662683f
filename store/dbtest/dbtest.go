// Package dbtest provides tests with SQLite databases that have their tables. They
// are created once in a process, and each test gets a copy of the file, in memory
// where that is possible. What creates a database, or depends on a disk, is tested
// in package store, without it.
package dbtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/store"
)

// empty returns the content of a database that nothing was written to.
var empty = sync.OnceValues(func() (content []byte, err error) {
	dir, err := os.MkdirTemp(parent(), "hostler-dbtest-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "hostler.db")
	db, err := store.Open(context.Background(), path)
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil { // all is in the one file then
		return nil, err
	}
	return os.ReadFile(path)
})

// Path returns the path of a new database in a directory of the test's own.
func Path(tb testing.TB) string {
	tb.Helper()
	content, err := empty()
	require.NoError(tb, err)
	dir, err := os.MkdirTemp(parent(), "hostler-dbtest-")
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, os.RemoveAll(dir)) })
	path := filepath.Join(dir, "hostler.db")
	require.NoError(tb, os.WriteFile(path, content, 0o600))
	return path
}

// Open opens a new database, which is closed when the test ends.
func Open(tb testing.TB) *store.DB {
	tb.Helper()
	db, err := store.Open(tb.Context(), Path(tb))
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	return db
}
