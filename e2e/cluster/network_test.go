package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The bridge keeps its MAC address when a pod with a lower one is added:
// otherwise other pods would send to the old one for a while.
func TestBridgeKeepsItsAddress(t *testing.T) {
	l := layout{dir: t.TempDir(), index: 255}
	if _, err := os.Stat(filepath.Join("/sys/class/net", l.Bridge())); err == nil || os.Geteuid() != 0 {
		skipMissing(t, "needs root, and no cluster of the index 255")
	}
	if _, err := lookPath("ip"); err != nil {
		skipMissing(t, err.Error())
	}
	t.Cleanup(func() { require.NoError(t, removeNetwork(context.Background(), l)) })
	require.NoError(t, makeNetwork(t.Context(), l))
	address := func() string {
		text, err := os.ReadFile(filepath.Join("/sys/class/net", l.Bridge(), "address"))
		require.NoError(t, err)
		return strings.TrimSpace(string(text))
	}
	require.Equal(t, l.Hardware(), address())
	require.NoError(t, run(t.Context(), "ip", "link", "add", "hostler-low255", "address", "02:00:00:00:00:01",
		"type", "veth", "peer", "name", "hostler-pod255"))
	require.NoError(t, run(t.Context(), "ip", "link", "set", "hostler-low255", "master", l.Bridge()))
	require.Equal(t, l.Hardware(), address())
}

// The plugins' results for this cluster's pods are removed, and those of others
// are kept. Empty directories are removed.
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
