package gvisortest

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The address comes from the environment, or is the default of .ci/gvisor.
func TestAddress(t *testing.T) {
	t.Setenv("HOSTLER_GVISOR_DIR", "")
	t.Setenv("HOSTLER_GVISOR_HOST", "")
	require.Equal(t, "unix:///tmp/hostler-gvisor/docker.sock", address())
	t.Setenv("HOSTLER_GVISOR_DIR", "/somewhere")
	require.Equal(t, "unix:///somewhere/docker.sock", address())
	t.Setenv("HOSTLER_GVISOR_HOST", "tcp://127.0.0.1:1")
	require.Equal(t, "tcp://127.0.0.1:1", address())
}

// An engine with another default runtime is rejected.
func TestCheckDefaultRuntime(t *testing.T) {
	dir, err := os.MkdirTemp("", "gvisor") // a socket's path is short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	host := filepath.Join(dir, "sock")
	require.Error(t, check(t.Context(), "unix://"+host), "no process listens")

	listener, err := net.Listen("unix", host)
	require.NoError(t, err)
	name := "runc"
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"DefaultRuntime": %q}`, name)
	})}
	go func() { _ = server.Serve(listener) }() // ends with Close
	defer server.Close()
	require.ErrorContains(t, check(t.Context(), "unix://"+host), "runc")
	name = "runsc"
	require.NoError(t, check(t.Context(), "unix://"+host))
}
