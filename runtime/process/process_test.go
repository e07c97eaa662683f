package process

import (
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/runtimetest"
)

func TestMain(m *testing.M) {
	testenv.Parallel(6)
	os.Exit(m.Run())
}

// newDir creates a directory that other users may traverse, as a container's
// user must. t.TempDir is closed to them.
func newDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hostler-process-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711))
	t.Cleanup(func() { require.NoError(t, removeAll(dir)) })
	return dir
}

func openRuntime(t testing.TB, dir string) *Runtime {
	t.Helper()
	rt, err := New(Options{Dir: dir, ShimPath: runtimetest.BuildShim(t), Secret: []byte("secret")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	return rt
}

// copyTestprog copies the test program to where every user can run it. In the meantime, no process is
// forked: it would have the file open for writing until it has executed its
// program, and the kernel executes no such file.
func copyTestprog(t testing.TB, dir string) string {
	t.Helper()
	b, err := os.ReadFile(runtimetest.BuildTestprog(t))
	require.NoError(t, err)
	path := dir + "/box"
	syscall.ForkLock.RLock()
	err = os.WriteFile(path, b, 0o755)
	syscall.ForkLock.RUnlock()
	require.NoError(t, err)
	return path
}

// The process runtime meets the contract. No other test runs concurrently with it: it
// measures the memory that this process allocates.
func TestRuntimeContract(t *testing.T) {
	dir := newDir(t)
	testprog := copyTestprog(t, dir)
	runtimetest.Run(t, runtimetest.Harness{
		New:    func(t *testing.T) runtime.Runtime { return openRuntime(t, dir+"/data") },
		Reopen: func(t *testing.T) runtime.Runtime { return openRuntime(t, dir+"/data") },
		Spec: func(t *testing.T) runtime.Spec {
			return runtime.Spec{
				ID: runtimetest.NewID(), Command: []string{testprog, "idle"}, Workdir: "/data",
				Volumes: []runtime.Volume{{Name: "data", Target: "/data"}},
			}
		},
		Tamper: func(t *testing.T, rt runtime.Runtime, spec runtime.Spec, protocol string) {
			require.NoError(t, rt.Create(t.Context(), spec))
			require.NoError(t, rt.Start(t.Context(), spec.ID, 1))
			tamper(t, rt.(*Runtime), spec.ID, protocol)
			t.Cleanup(func() {
				if _, err := rt.(*Runtime).lookup(spec.ID); err == nil {
					tamper(t, rt.(*Runtime), spec.ID, rt.Protocols().Format())
				}
				runtimetest.Destroy(t, rt, spec.ID)
			})
		},
		CreatePrevious: func(t *testing.T, spec runtime.Spec) {
			rt, err := New(Options{Dir: dir + "/data", ShimPath: runtimetest.BuildPreviousShim(t), Secret: []byte("secret")})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, rt.Close()) })
			t.Cleanup(func() { runtimetest.Destroy(t, rt, spec.ID) })
			require.NoError(t, rt.Create(t.Context(), spec))
			require.NoError(t, rt.startInit(t.Context(), rt.paths(spec.ID)))
			tamper(t, rt, spec.ID, strconv.Itoa(runtimetest.PreviousVersion))
		},
		Limitations: runtimetest.Limitations{SingleUser: os.Geteuid() != 0, SharedHost: true, NoOOMCounter: true, NoImageHooks: true},
	})
}

// tamper changes the version in a container's record.
func tamper(t *testing.T, rt *Runtime, id, protocol string) {
	t.Helper()
	c, err := rt.paths(id).readRecord()
	require.NoError(t, err)
	c.Protocol = protocol
	require.NoError(t, rt.paths(id).writeRecord(c))
}
