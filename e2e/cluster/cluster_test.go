package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A directory of another owner is never used, because its content would be
// removed.
func TestClaimDirRefusesForeign(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	require.NoError(t, claimDir(dir), "a missing directory")
	require.NoError(t, claimDir(dir), "an empty directory")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o600))
	require.ErrorContains(t, claimDir(dir), "is not a cluster's")

	require.NoError(t, os.WriteFile(filepath.Join(dir, lockFile), nil, 0o600))
	require.NoError(t, claimDir(dir), "the directory of an earlier cluster")
}

// The end of a log may be shorter than the requested number of lines.
func TestLastLines(t *testing.T) {
	require.Equal(t, "b\nc", lastLines([]byte("a\nb\nc\n"), 2))
	require.Equal(t, "a", lastLines([]byte("a\n"), 2))
	require.Empty(t, lastLines(nil, 2))
}
