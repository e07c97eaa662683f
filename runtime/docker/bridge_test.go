package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/docker"
)

// putProgram puts a program of testdata into /data.
func putProgram(t *testing.T, rt *docker.Runtime, id, name string) {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	program := buildProgram(t, name)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg}))
	_, err := w.Write([]byte(program))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, rt.CopyIn(t.Context(), id, "/data", 0, &buf))
}

// A bridge that was started while a tenant was active ends with the tenant's
// wipe, and with it the limits that root has written while the engine started
// it. The server opens another session.
func TestWipeEndsBridgeOfTenant(t *testing.T) {
	rt := openRuntime(t)
	id := startContainer(t, rt, func(s *runtime.Spec) { s.User = "0:0" })
	require.NoError(t, rt.RecordBaseline(t.Context(), id, 1))
	putProgram(t, rt, id, "bridge")
	written := make(chan runtime.Result, 1)
	go func() { // ends with the command
		r, err := rt.Exec(context.Background(), id, runtime.Command{Args: []string{"/data/bridge", "write", "secret!", "20"}, Timeout: 30 * time.Second})
		if err != nil {
			t.Logf("the first tenant: %v", err)
		}
		written <- r
	}()

	// Each server that speaks to the container starts a bridge.
	var other *docker.Runtime
	var r runtime.Result
	for done := false; !done; {
		other = connect(t)
		_, err := other.Exec(t.Context(), id, runtime.Command{Args: []string{"/box", "pwd"}})
		require.NoError(t, err)
		select {
		case r = <-written:
			done = true
		case <-time.After(time.Second):
		}
	}
	t.Logf("the first tenant: %s%s", r.Stdout.String(), r.Stderr.String())

	require.NoError(t, other.Wipe(t.Context(), id, 2))
	putProgram(t, other, id, "bridge")
	require.NoError(t, other.Restart(t.Context(), id, 2))
	require.NotContains(t, mustExec(t, other, id, "/data/bridge", "read"), "secret")
	mustExec(t, rt, id, "/box", "pwd") // by the first server
}
