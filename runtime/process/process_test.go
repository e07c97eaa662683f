package process

import (
	"os"
	"testing"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/runtimetest"
	"github.com/stretchr/testify/require"
)

// newDir makes a folder that other users may pass through, as a container's
// user has to. t.TempDir is closed to them.
func newDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hostler-process-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711))
	t.Cleanup(func() { require.NoError(t, removeAll(dir)) })
	return dir
}

func open(t testing.TB, dir string) *Runtime {
	t.Helper()
	rt, err := New(Options{Dir: dir, ShimPath: runtimetest.BuildShim(t), Secret: []byte("secret")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	return rt
}

// boxIn copies the box to where every user can run it.
func boxIn(t testing.TB, dir string) string {
	t.Helper()
	b, err := os.ReadFile(runtimetest.BuildBox(t))
	require.NoError(t, err)
	path := dir + "/box"
	require.NoError(t, os.WriteFile(path, b, 0o755))
	return path
}

// The contract.
func TestContract(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	box := boxIn(t, dir)
	runtimetest.Run(t, runtimetest.Harness{
		New:    func(t *testing.T) runtime.Runtime { return open(t, dir+"/data") },
		Reopen: func(t *testing.T) runtime.Runtime { return open(t, dir+"/data") },
		Spec: func(t *testing.T) runtime.Spec {
			return runtime.Spec{
				ID: runtimetest.NewID(), Command: []string{box, "idle"}, Workdir: "/data",
				Volumes: []runtime.Volume{{Name: "data", Target: "/data"}},
			}
		},
		Tamper: func(t *testing.T, rt runtime.Runtime, spec runtime.Spec, protocol string) {
			require.NoError(t, rt.Create(t.Context(), spec))
			require.NoError(t, rt.Start(t.Context(), spec.ID))
			tamper(t, rt.(*Runtime), spec.ID, protocol)
			t.Cleanup(func() {
				if _, err := rt.(*Runtime).find(spec.ID); err == nil {
					tamper(t, rt.(*Runtime), spec.ID, rt.Protocols().Record())
				}
				runtimetest.Destroy(t, rt, spec.ID)
			})
		},
		Facts: runtimetest.Facts{OneUser: os.Geteuid() != 0, SharedMachine: true},
	})
}

// tamper changes the version in a container's record.
func tamper(t *testing.T, rt *Runtime, id, protocol string) {
	t.Helper()
	c, err := rt.place(id).read()
	require.NoError(t, err)
	c.Protocol = protocol
	require.NoError(t, rt.place(id).write(c))
}
