package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A server with a state key encrypts what it stores, and restores it.
func TestStateIsEncrypted(t *testing.T) {
	t.Parallel()
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString(key)+"\n"), 0o600))
	s := serve(t, processBackend{}, "--state-key-file", file)
	s.apply("notes", statefulWorkload)
	ada := s.claimAs("notes", "ada")
	ada.mustRun("append", "/state/hidden-name", "hidden content")
	ada.release()
	stored := 0
	require.NoError(t, filepath.WalkDir(filepath.Join(s.data, "state"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		stored++
		body, err := os.ReadFile(name)
		require.False(t, bytes.Contains(body, []byte("hidden")), name)
		return err
	}))
	require.GreaterOrEqual(t, stored, 2)
	again := s.claimAs("notes", "ada")
	require.NotEqual(t, ada.Container, again.Container)
	require.Equal(t, "hidden content", again.mustRun("read", "/state/hidden-name"))
	again.release()
}
