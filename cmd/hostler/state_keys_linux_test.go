package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const stateKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

// A server whose file of state keys cannot be used does not start, and creates
// nothing: it would store tenants' state in the clear.
func TestStartWithoutStateKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.NoError(t, os.Chmod(path, mode))
		return path
	}
	for file, want := range map[string]string{
		filepath.Join(dir, "none"):         "no such file",
		write("empty", "\n", 0o600):        "openssl rand -base64 32",
		write("open", stateKey, 0o644):     "chmod 600",
		write("bad", stateKey+"==", 0o600): "line 1 is not a key",
	} {
		data := filepath.Join(dir, "data")
		var log bytes.Buffer
		_, err := wire(t.Context(), serveConfig{data: data, runtime: "process", store: sqlite, stateKeyFile: file}, slog.New(slog.NewTextHandler(&log, nil)))
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "--state-key-file")
		require.ErrorContains(t, err, file)
		require.NotContains(t, err.Error()+log.String(), stateKey[:12])
		require.NoDirExists(t, data)
	}
}

// The keys of the file are those of all sinks. The log has the current one's
// name, and no key.
func TestStateKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "keys")
	require.NoError(t, os.WriteFile(file, []byte("# the current one\n"+stateKey+"\n"), 0o600))
	self, err := os.Executable() // no container is created, so that any program will do
	require.NoError(t, err)
	for _, path := range []string{file, ""} {
		var log bytes.Buffer
		c := serveConfig{data: filepath.Join(dir, "data"), runtime: "process", store: sqlite, shim: self, stateKeyFile: path}
		s, err := wire(t.Context(), c, slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		id := s.sinks.Keys.Current().String()
		require.NoError(t, s.closeAll())
		if path == "" {
			require.Nil(t, s.sinks.Keys)
			require.NotContains(t, log.String(), "encrypted")
			continue
		}
		require.Equal(t, "9df756df5c8337c2", id)
		require.Contains(t, log.String(), "key="+id)
		require.NotContains(t, log.String(), stateKey[:12])
	}
}
