package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the network's plugins remember of this cluster's pods is forgotten, of
// others' it stays; a folder that holds nothing any more goes.
func TestRemoveResults(t *testing.T) {
	l := layout{dir: "/tmp/cluster"}
	memory := filepath.Join(t.TempDir(), "cni")
	remember := func(name, netns string) string {
		file := filepath.Join(memory, "results", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(`{"netns":"`+netns+`"}`), 0o600))
		return file
	}
	mine := remember("cni-loopback-1-lo", "/tmp/cluster/run/containerd/netns/1")
	other := remember("cni-loopback-2-lo", "/tmp/cluster2/run/containerd/netns/2")

	require.NoError(t, removeResults(l, memory))
	require.NoFileExists(t, mine)
	require.FileExists(t, other)

	require.NoError(t, removeResults(layout{dir: "/tmp/cluster2"}, memory))
	require.NoDirExists(t, memory)
	require.NoError(t, removeResults(l, memory), "once more")
}
