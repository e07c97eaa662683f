//go:build unix

package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/postgrestest"
)

// Only a server whose process has ended, on this host, is said to be dead.
func TestPredecessor(t *testing.T) {
	data := t.TempDir()
	find := func(host string) (predecessor, string) {
		p, id, err := findPredecessor(data, host)
		require.NoError(t, err)
		return p, id
	}
	first, id := find("here")
	require.Empty(t, id)
	require.NoError(t, first.become("a-long-id", "here"))
	second, id := find("here")
	require.Empty(t, id, "it lives")
	require.NoError(t, second.become("two", "here"), "and stays the one that is found")
	require.NoError(t, first.file.Close())

	third, id := find("elsewhere")
	require.Empty(t, id, "the directory was copied")
	require.NoError(t, third.file.Close())
	fourth, id := find("here")
	require.Equal(t, "a-long-id", id)
	require.NoError(t, fourth.become("b", "here"))
	require.NoError(t, fourth.file.Close())
	_, id = find("here")
	require.Equal(t, "b", id)
}

// A data directory that cannot be written keeps no server from serving whose
// records are elsewhere.
func TestJoinWithoutPredecessor(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(data, "server"), 0o700)) // where the file should be
	db, err := store.Open(t.Context(), postgrestest.Schema(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	var said bytes.Buffer
	l, err := join(t.Context(), serveConfig{data: data}, db, slog.New(slog.NewTextHandler(&said, nil)))
	require.NoError(t, err)
	require.True(t, l.holds())
	require.Contains(t, said.String(), "is a directory")
}
