package store

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
)

// A server that has had a credential is not open again when a copy of the time before
// that is restored.
func TestRestoreOfATimeWithoutCredentials(t *testing.T) {
	dir := t.TempDir()
	path, into := filepath.Join(dir, "hostler.db"), filepath.Join(dir, "copy.db")
	load := func() (*credential.Service, *DB) {
		db, err := Open(t.Context(), path)
		require.NoError(t, err)
		s, err := credential.New(credential.Options{Store: db})
		require.NoError(t, err)
		require.NoError(t, s.Load(t.Context()))
		return s, db
	}
	s, db := load()
	require.True(t, s.IsOpen())
	require.NoError(t, Backup(t.Context(), path, into))
	_, _, err := s.CreateKey(t.Context(), credential.NewKey{Name: "op", Grants: []auth.Grant{{Role: auth.Operator}}})
	require.NoError(t, err)
	require.NoError(t, db.Close())
	for range 2 { // a copy that is restored twice, too
		_, err = Restore(t.Context(), into, path)
		require.NoError(t, err)
		s, db = load()
		require.False(t, s.IsOpen())
		keys, err := s.Keys(t.Context())
		require.NoError(t, err)
		require.Empty(t, keys)
		require.NoError(t, db.Close())
	}
	s, db = load()
	_, _, err = s.Bootstrap(t.Context(), "op")
	require.NoError(t, err)
	require.NoError(t, db.Close())
}
