package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A folder of somebody else's is never taken, since all in it would be removed.
func TestClaimDirRefusesForeign(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	require.NoError(t, claimDir(dir), "one that is not there")
	require.NoError(t, claimDir(dir), "one that is empty")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o600))
	require.ErrorContains(t, claimDir(dir), "is not a cluster's")

	require.NoError(t, os.WriteFile(filepath.Join(dir, lockFile), nil, 0o600))
	require.NoError(t, claimDir(dir), "one that a cluster left")
}

// The end of a log is the end, also of one that is shorter.
func TestLastLines(t *testing.T) {
	require.Equal(t, "b\nc", lastLines([]byte("a\nb\nc\n"), 2))
	require.Equal(t, "a", lastLines([]byte("a\n"), 2))
	require.Empty(t, lastLines(nil, 2))
}
