package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two clusters share no address and no name.
func TestLayoutsShareNothing(t *testing.T) {
	a, b := layout{dir: "/run/a"}, layout{dir: "/run/b", index: 255}
	for name, of := range map[string]func(layout) string{
		"name":      layout.Name,
		"bridge":    layout.Bridge,
		"loopback":  layout.Loopback,
		"gateway":   layout.Gateway,
		"pods":      layout.Pods,
		"services":  layout.Services,
		"apiserver": layout.APIServer,
		"socket":    layout.Socket,
	} {
		require.NotEqual(t, of(a), of(b), name)
	}
	require.LessOrEqual(t, len(b.Bridge()), 15, "maximum length of a device's name")
}

// A cluster's directory is its real path, before and after it exists, because
// mounts are found by it.
func TestLayoutResolvesLinks(t *testing.T) {
	real, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(real, link))
	getenv := env(map[string]string{"HOSTLER_CLUSTER_DIR": filepath.Join(link, "cluster")})

	before, err := layoutOf(getenv)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(real, "cluster"), before.dir)

	require.NoError(t, os.Mkdir(before.dir, 0o755))
	after, err := layoutOf(getenv)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// The target of a link is never removed recursively.
func TestLayoutRefusesLink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(t.TempDir(), link))
	_, err := layoutOf(env(map[string]string{"HOSTLER_CLUSTER_DIR": link}))
	require.ErrorContains(t, err, "not a directory")
}
