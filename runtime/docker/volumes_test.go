package docker_test

import (
	"path/filepath"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// A read-only root is writable where programs expect it, and nowhere else.
func TestReadOnlyRoot(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	id := startContainer(t, rt, func(s *runtime.Spec) { s.ReadOnly = true })
	for _, path := range []string{"/tmp/a", "/var/tmp/a", "/run/a", "/data/a"} {
		mustExec(t, rt, id, "/box", "write", path, "x")
	}
	result, err := rt.Exec(t.Context(), id, runtime.Command{Args: []string{"/box", "write", "/a", "x"}})
	require.NoError(t, err)
	require.False(t, result.OK())
}

// A volume that is read-only for the workload is filled and emptied by Hostler,
// and cannot be written by any process in the container, whatever its user, also
// when the engine has started it again.
func TestReadOnlyVolume(t *testing.T) {
	t.Parallel()
	rt, api := openRuntime(t), needEngine(t)
	for _, user := range []string{"0:0", "1234:5678"} {
		id := startContainer(t, rt, func(s *runtime.Spec) {
			s.User, s.ReadOnly = user, user != "0:0"
			s.Volumes = append(s.Volumes, runtime.Volume{Name: "keys", Target: "/keys", ReadOnly: true})
		})
		files := map[string]string{"f": "x"}
		require.NoError(t, rt.RecordBaseline(t.Context(), id, 1))
		require.NoError(t, rt.CopyIn(t.Context(), id, "/keys", 0, rootfs(t, files)))
		require.NoError(t, rt.CopyIn(t.Context(), id, "/data", 0, rootfs(t, files)))
		require.Equal(t, "x", mustExec(t, rt, id, "/box", "read", "/keys/f"))
		closed := func() {
			for _, path := range []string{"/keys/f", "/.hostler-volumes/keys/f", "/.hostler-volumes/g"} {
				result, err := rt.Exec(t.Context(), id, runtime.Command{Args: []string{"/box", "write", path, "y"}})
				require.NoError(t, err)
				require.False(t, result.OK(), "as %s: %s was written", user, path)
			}
		}
		closed()
		require.NoError(t, rt.Wipe(t.Context(), id, 1))
		require.NoError(t, rt.Restart(t.Context(), id, 1))
		for _, path := range []string{"/keys/f", "/data/f"} {
			result, err := rt.Exec(t.Context(), id, runtime.Command{Args: []string{"/box", "read", path}})
			require.NoError(t, err)
			require.False(t, result.OK(), "as %s: %s is still there", user, path)
		}
		require.NoError(t, api.ContainerStop(t.Context(), "hostler-"+id, container.StopOptions{Timeout: new(int)}))
		require.NoError(t, rt.Start(t.Context(), id, 1))
		require.NoError(t, rt.CopyIn(t.Context(), id, "/keys", 0, rootfs(t, files)), "a second time")
		closed()
		require.Equal(t, "x", mustExec(t, rt, id, "/box", "read", "/keys/f"))
	}
}

// What is mounted inside a directory that is emptied stays where it is, and what
// is next to it is removed.
func TestWipeKeepsNestedMounts(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	id := startContainer(t, rt, func(s *runtime.Spec) {
		s.ReadOnly = true
		s.Volumes = append(s.Volumes,
			runtime.Volume{Name: "secrets", Target: "/run/secrets", ReadOnly: true},
			runtime.Volume{Name: "deep", Target: "/data/a/b", ReadOnly: true},
			runtime.Volume{Name: "state", Target: "/run/state"})
	})
	require.NoError(t, rt.RecordBaseline(t.Context(), id, 1))
	files := []string{"/run/secrets/f", "/data/a/b/f", "/run/state/f", "/run/f", "/data/f", "/data/a/f"}
	for range 2 {
		for _, path := range files[:2] {
			require.NoError(t, rt.CopyIn(t.Context(), id, filepath.Dir(path), 0, rootfs(t, map[string]string{"f": "x"})))
		}
		for _, path := range files[2:] {
			mustExec(t, rt, id, "/box", "write", path, "x")
		}
		require.NoError(t, rt.Wipe(t.Context(), id, 1))
		require.NoError(t, rt.Restart(t.Context(), id, 1))
		for _, path := range files {
			result, err := rt.Exec(t.Context(), id, runtime.Command{Args: []string{"/box", "read", path}})
			require.NoError(t, err)
			require.False(t, result.OK(), "%s is still there", path)
		}
	}
}
