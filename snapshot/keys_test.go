package snapshot_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/statekey"
)

// Every sink of a server has its keys; without them state is not encrypted.
func TestSinksHaveKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "keys")
	require.NoError(t, os.WriteFile(file, []byte("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="), 0o600))
	keys, err := statekey.Load(file)
	require.NoError(t, err)
	for _, want := range []*statekey.Keys{keys, nil} {
		sinks := snapshot.NewSinks(snapshot.PathPolicy{State: filepath.Join(dir, "state")}, nil)
		sinks.Keys = want
		sink, err := sinks.Open(t.Context(), synced(t, ""))
		require.NoError(t, err)
		require.Same(t, want, snapshot.KeysOf(sink))
		require.Equal(t, want.Current(), snapshot.KeysOf(sink).Current())
		require.NoError(t, sinks.Close())
	}
}
