package docker_test

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// An engine applies what was requested, and reports what it does not have.
func TestEngineIsolation(t *testing.T) {
	needEngine(t)
	rt, spec := openRuntime(t), newSpec()
	spec.Isolation = runtime.Isolation{Runtime: "no-such-runtime"}
	require.ErrorContains(t, rt.Check(t.Context(), spec), "runc")
	spec.Isolation = runtime.Isolation{Runtime: "runc", NetworkMode: runtime.NetworkNone}
	require.NoError(t, rt.Check(t.Context(), spec))
	t.Cleanup(func() { runtimetest.Destroy(t, rt, spec.ID) })
	require.NoError(t, rt.Create(t.Context(), spec))
	require.NoError(t, rt.Start(t.Context(), spec.ID, 1))
	result, err := rt.Exec(t.Context(), spec.ID, runtime.Command{Args: []string{spec.Command[0], "read", "/proc/net/dev"}})
	require.NoError(t, err)
	require.True(t, result.OK())
	require.NotContains(t, result.Stdout.String(), "eth0")
	status, err := rt.Status(t.Context(), spec.ID)
	require.NoError(t, err)
	require.Empty(t, status.Endpoint.Host)
}

// A hook of a workload that is not root signals the main process, and cannot
// signal process 1, which is the shim.
func TestSignalAsUser(t *testing.T) {
	needEngine(t)
	rt, spec := openRuntime(t), newSpec()
	testprog := spec.Command[0]
	spec.User, spec.Command = "1000:1000", []string{testprog, "noted", "signals"}
	t.Cleanup(func() { runtimetest.Destroy(t, rt, spec.ID) })
	require.NoError(t, rt.Create(t.Context(), spec))
	require.NoError(t, rt.Start(t.Context(), spec.ID, 1))
	run := func(args ...string) runtime.Result {
		result, err := rt.Exec(t.Context(), spec.ID, runtime.Command{Args: append([]string{testprog}, args...)})
		require.NoError(t, err)
		return result
	}
	testenv.AwaitTrue(t, "the main process to handle signals", func() bool {
		log, err := rt.Logs(t.Context(), spec.ID, time.Time{}, 100)
		require.NoError(t, err)
		text, err := io.ReadAll(log)
		require.NoError(t, err)
		return len(text) > 0
	})
	require.True(t, run("kill", "main", "USR1").OK())
	require.Equal(t, "USR1", run("await", "signals").Stdout.String())
	refused := run("kill", "1", "USR1")
	require.Equal(t, 1, refused.ExitCode)
	require.Contains(t, refused.Stderr.String(), "not permitted")
}
