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

// The previous server is reported only if its process on this host has exited.
func TestPreviousServer(t *testing.T) {
	data := t.TempDir()
	find := func(host string) (previousServer, string) {
		p, id, err := findPreviousServer(data, host)
		require.NoError(t, err)
		return p, id
	}
	first, id := find("here")
	require.Empty(t, id)
	require.NoError(t, first.record("a-long-id", "here"))
	second, id := find("here")
	require.Empty(t, id, "it is alive")
	require.NoError(t, second.record("two", "here"), "without the lock nothing is recorded")
	require.NoError(t, first.file.Close())

	third, id := find("elsewhere")
	require.Empty(t, id, "the directory was copied")
	require.NoError(t, third.file.Close())
	fourth, id := find("here")
	require.Equal(t, "a-long-id", id)
	require.NoError(t, fourth.record("b", "here"))
	require.NoError(t, fourth.file.Close())
	fifth, id := find("here")
	require.Equal(t, "b", id)
	require.NoError(t, fifth.file.Close())
}

// A copy of a data directory does not show that the server of the original has
// exited, also on a machine with the same name or after a reboot.
func TestPreviousServerOfCopiedDirectory(t *testing.T) {
	data, other := t.TempDir(), t.TempDir()
	living, _, err := findPreviousServer(data, "here")
	require.NoError(t, err)
	require.NoError(t, living.record("alive", "here"))
	text, err := os.ReadFile(filepath.Join(data, "server"))
	require.NoError(t, err)
	// The copy's file is created while the original exists: a removed file's inode
	// number may be reused.
	require.NoError(t, os.WriteFile(filepath.Join(other, "server"), text, 0o600))
	_, id, err := findPreviousServer(other, "here")
	require.NoError(t, err)
	require.Empty(t, id)

	require.NoError(t, living.file.Close())
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	require.NoError(t, err)
	rebooted := bytes.Replace(text, bytes.TrimSpace(boot), []byte("another"), 1)
	require.NotEqual(t, text, rebooted)
	require.NoError(t, os.WriteFile(filepath.Join(data, "server"), rebooted, 0o600))
	_, id, err = findPreviousServer(data, "here")
	require.NoError(t, err)
	require.Empty(t, id)
}

// A server whose records are elsewhere starts also if its data directory cannot
// be written.
func TestRegisterWithoutPreviousServer(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(data, "server"), 0o700)) // where the file should be
	db, err := store.Open(t.Context(), postgrestest.Schema(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	var logged bytes.Buffer
	l, err := registerReplica(t.Context(), serveConfig{data: data}, db, slog.New(slog.NewTextHandler(&logged, nil)))
	require.NoError(t, err)
	require.True(t, l.isHeld())
	require.Contains(t, logged.String(), "is a directory")
}
