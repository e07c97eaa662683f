package runtimetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
)

// Each clone of the module has its own programs, and those of a removed clone are
// removed.
func TestBuildDir(t *testing.T) {
	parent, first, second := t.TempDir(), t.TempDir(), t.TempDir()
	of := func(root string) string {
		dir, err := buildDir(parent, root)
		require.NoError(t, err)
		return dir
	}
	dir := of(first)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "box"), nil, 0o755))
	require.NotEqual(t, dir, of(second))
	require.Equal(t, dir, of(first))
	require.FileExists(t, filepath.Join(dir, "box"))

	require.NoError(t, os.Remove(first))
	of(second)
	require.NoDirExists(t, dir)
	require.DirExists(t, of(second))

	root, err := moduleRoot()
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(root, "runtime", "runtimetest", "build.go"))
}

// A commit that the clone does not have is a missing history. That of the previous
// shim is complete.
func TestExtractCommit(t *testing.T) {
	require.ErrorIs(t, extractCommit("0123456789012345678901234567890123456789", t.TempDir()), errNoHistory)
	dir := t.TempDir()
	err := extractCommit(previousCommit, dir)
	if errors.Is(err, errNoHistory) {
		testenv.Skip(t, "history", "%v", err)
	}
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "runtime", "shim", "version.go"))
	require.NoError(t, err)
	require.Regexp(t, fmt.Sprintf(`\bVersion += %d\b`, PreviousVersion), string(text))
}
