package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A key that is written into a file which other users can read comes with a warning.
func TestWarningOfAReadableFile(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct {
		mode os.FileMode
		want string
	}{
		"private": {0o600, ""}, "group": {0o640, "chmod 600"}, "all": {0o644, "chmod 600"},
	} {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, test.mode)
		require.NoError(t, err)
		require.NoError(t, f.Chmod(test.mode))
		if test.want == "" {
			require.Empty(t, readableNote(f), name)
		} else {
			require.Contains(t, readableNote(f), test.want, name)
		}
		require.NoError(t, f.Close())
	}
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.Empty(t, readableNote(w))
	require.NoError(t, r.Close())
	require.NoError(t, w.Close())
}
