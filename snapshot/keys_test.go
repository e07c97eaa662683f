package snapshot_test

import (
	"bytes"
	"io/fs"
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

// With a key nothing in the sink has a name or the content of a file. A server
// without the key, or with another one, refuses to restore the state; one that
// has it among others restores it.
func TestUploadsAreEncrypted(t *testing.T) {
	t.Parallel()
	const first, second = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	dir := t.TempDir()
	h := newHarness(t, "")
	with := func(keys string) {
		h.Helper()
		sinks := snapshot.NewSinks(snapshot.PathPolicy{State: filepath.Join(dir, "state")}, nil)
		t.Cleanup(func() { require.NoError(t, sinks.Close()) })
		if keys != "" {
			file := filepath.Join(t.TempDir(), "keys")
			require.NoError(t, os.WriteFile(file, []byte(keys), 0o600))
			var err error
			sinks.Keys, err = statekey.Load(file)
			require.NoError(t, err)
		}
		var err error
		h.sink, err = sinks.Open(t.Context(), synced(t, ""))
		require.NoError(t, err)
	}
	with(first)
	h.upload(h.container(reg("secret-name", "secret content"), link("l", "secret target")))
	packs := 0
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "state"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := os.ReadFile(name)
		require.False(t, bytes.Contains(body, []byte("secret")), name)
		if filepath.Base(filepath.Dir(name)) == "packs" {
			packs++
		}
		return err
	}))
	require.Equal(t, 1, packs)
	for keys, refused := range map[string]bool{"": true, second: true, second + "\n" + first: false, first: false} {
		with(keys)
		c := h.container()
		_, err := h.sink.Download(t.Context(), h.rt, snapshot.Destination{Owner: h.owner, Container: c})
		if refused {
			require.ErrorIs(t, err, snapshot.ErrUnknownKey)
			require.Empty(t, h.has(c, "/data"))
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "644 secret content", h.has(c, "/data")["secret-name"])
	}
}
