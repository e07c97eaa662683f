package backend

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// A directory on a volume that is read-only for the workload is written in the
// writable mirror of the volume, and no other is.
func TestWritablePath(t *testing.T) {
	mirror := shim.WritableMirrorDir + "/volume-1"
	mounts := []Mount{
		{Volume: "volume-0", Target: "/data"}, {Volume: "volume-1", Target: "/data/seed/", ReadOnly: true},
		{Volume: "volume-1", Target: mirror}, {Volume: "shim", Target: shim.Mount, ReadOnly: true},
	}
	for dir, want := range map[string]string{
		"/": "/", "/data": "/data", "/data/x": "/data/x", "/data/seeds": "/data/seeds",
		"/data/seed": mirror, "/data/seed/a/b": mirror + "/a/b", "/data/./seed/../seed/a": mirror + "/a",
		shim.Mount + "/x": shim.Mount + "/x",
	} {
		require.Equal(t, want, writablePath(mounts, dir), dir)
	}
	mounts[1].ReadOnly = false
	require.Equal(t, "/data/seed", writablePath(mounts, "/data/seed"), "it is writable where it is")
}

// Files are copied into no container whose volumes are unknown.
func TestCopyInWithoutMounts(t *testing.T) {
	c := New(nil, Options{Mounts: func(context.Context, string) ([]Mount, error) { return nil, runtime.ErrUnavailable }})
	err := c.CopyIn(t.Context(), "c", "/data", 0, strings.NewReader("x"))
	require.ErrorIs(t, err, runtime.ErrUnavailable)
	require.ErrorContains(t, err, "/data of the container c")
}

// Ports are read as they were written, and nothing else is a port.
func TestPorts(t *testing.T) {
	for _, ports := range [][]int{{}, {80}, {80, 8080, 1}} {
		require.Equal(t, ports, ParsePorts(FormatPorts(ports)))
	}
	require.Equal(t, []int{80}, ParsePorts("x,80,"))
}
