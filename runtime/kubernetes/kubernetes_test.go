package kubernetes_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/kubernetes"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// What the workload leaves open is the image's own: command, environment,
// user, its groups, home and working directory.
func TestImageDefaultsApply(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	id := startContainer(t, rt, func(s *runtime.Spec) {
		s.Image, s.Command, s.Workdir, s.User = testImages(t).users, nil, "", ""
	})
	require.Contains(t, mustExec(t, rt, id, "box", "id"), "uid=1001 gid=1001 groups=50 caps=0 nnp=1")
	require.Equal(t, "/home/alice\n", mustExec(t, rt, id, "box", "pwd"))
	require.Equal(t, "yes\n", mustExec(t, rt, id, "box", "env", "FROM_IMAGE"))
	require.Equal(t, "/home/alice\n", mustExec(t, rt, id, "box", "env", "HOME"))
	require.Contains(t, mustExec(t, rt, id, "box", "ps", "box idle"), "box idle")
}

// With command and user in the workload the registry is not queried; the image's
// environment and working directory apply all the same.
func TestCompleteSpecSkipsRegistry(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	id := startContainer(t, rt, func(s *runtime.Spec) {
		s.Image, s.Command, s.Workdir, s.User = testImages(t).users, []string{"box", "idle"}, "", "1001"
	})
	require.Equal(t, "/home/alice\n", mustExec(t, rt, id, "box", "pwd"))
	require.Equal(t, "yes\n", mustExec(t, rt, id, "box", "env", "FROM_IMAGE"))
}

// No program runs as root because the user of its image is unknown.
func TestRegistryUnavailable(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	spec := newSpec(t)
	spec.User, spec.Image = "", "127.0.0.1:1/nothing/there:1"
	err := rt.Create(t.Context(), spec)
	require.ErrorIs(t, err, runtime.ErrImageUnavailable)
	require.ErrorContains(t, err, "set command and user in the workload")
	spec.Image = strings.Replace(testImages(t).testprog, "box:1", "no-such:1", 1)
	require.ErrorIs(t, rt.Create(t.Context(), spec), runtime.ErrImageUnavailable)
	spec.Image = "Not An Image"
	require.ErrorIs(t, rt.Create(t.Context(), spec), runtime.ErrImageUnavailable)
}

// Values reach the container unchanged, although the kubelet expands dollar
// signs.
func TestEnvironmentIsLiteral(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	value := `$(HOSTNAME) $$(HOSTNAME) $$ ${X} "quoted" \n`
	id := startContainer(t, rt, func(s *runtime.Spec) { s.Environment = map[string]string{"VALUE": value} })
	require.Equal(t, value+"\n", mustExec(t, rt, id, "/box", "env", "VALUE"))
}

// A read-only root cannot be written, temporary directories can, and a volume that
// is read-only for the workload is filled and emptied all the same.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	id := startContainer(t, rt, func(s *runtime.Spec) {
		s.ReadOnly, s.User = true, "1000:1000"
		s.Volumes = append(s.Volumes, runtime.Volume{Name: "A_rather.odd name", Target: "/seed", ReadOnly: true})
	})
	for _, path := range []string{"/elsewhere", "/seed/x", "/.hostler/bin/x", "/.hostler/run/x", "/.hostler-volumes/x"} {
		result, err := rt.Exec(t.Context(), id, runtime.Command{Args: []string{"/box", "write", path, "x"}})
		require.NoError(t, err)
		require.Equal(t, 1, result.ExitCode, "%s: %+v", path, result)
	}
	for _, path := range []string{"/tmp/x", "/var/tmp/x", "/data/x"} {
		mustExec(t, rt, id, "/box", "write", path, "x")
	}
	require.NoError(t, rt.RecordBaseline(t.Context(), id, 1))
	require.NoError(t, rt.CopyIn(t.Context(), id, "/seed", 0, strings.NewReader(string(rootfs(t, map[string]string{"file": "seeded"})))))
	require.Equal(t, "seeded", mustExec(t, rt, id, "/box", "read", "/seed/file"))
	require.NoError(t, rt.Wipe(t.Context(), id, 1))
	require.NoError(t, rt.Restart(t.Context(), id, 1))
	for _, path := range []string{"/tmp/x", "/var/tmp/x", "/data/x", "/seed/file"} {
		result, err := rt.Exec(t.Context(), id, runtime.Command{Args: []string{"/box", "stat", path}})
		require.NoError(t, err)
		require.Equal(t, 1, result.ExitCode, path)
	}
}

// A container that cannot be started is reported at once, in the cluster's words,
// and not at the caller's timeout.
func TestStartErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*runtime.Spec)
		shim   string
		means  error
		words  string
	}{
		"no such image": {change: func(s *runtime.Spec) { s.Image = strings.Replace(s.Image, "box:1", "no-such:1", 1) },
			means: runtime.ErrImageUnavailable, words: "no-such"},
		"no such registry": {change: func(s *runtime.Spec) { s.Image = "127.0.0.1:1/nothing/there:1" },
			means: runtime.ErrImageUnavailable, words: "connection refused"},
		"no such shim":               {shim: "127.0.0.1:1/nothing/there:1", means: runtime.ErrImageUnavailable, words: "nothing/there"},
		"a shim's image without one": {shim: "box", means: runtime.ErrInvalid, words: "hostler-shim"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt := openRuntime(t, func(o *kubernetes.Options) {
				if test.shim == "box" {
					o.ShimImage = testImages(t).testprog
				} else if test.shim != "" {
					o.ShimImage = test.shim
				}
			})
			spec := newSpec(t)
			if test.change != nil {
				test.change(&spec)
			}
			t.Cleanup(func() { runtimetest.Destroy(t, rt, spec.ID) })
			require.NoError(t, rt.Create(t.Context(), spec))
			err := rt.Start(t.Context(), spec.ID, 1)
			require.ErrorIs(t, err, test.means)
			require.ErrorContains(t, err, test.words)
		})
	}
}

// A pod that no node accepts fails after the timeout, with the scheduler's
// reason.
func TestUnschedulable(t *testing.T) {
	t.Parallel()
	rt, c := openRuntime(t), needCluster(t)
	spec := newSpec(t)
	t.Cleanup(func() { runtimetest.Destroy(t, rt, spec.ID) })
	require.NoError(t, rt.Create(t.Context(), spec))
	// While it is gated, the node selection of a pod may still be narrowed.
	require.NoError(t, c.Do(t.Context(), http.MethodPatch, pod(spec.ID), `{"spec": {"nodeSelector": {"no-such": "node"}}}`, nil))
	err := rt.Start(t.Context(), spec.ID, 1)
	require.ErrorIs(t, err, runtime.ErrInvalid)
	require.ErrorContains(t, err, "nodes are available")
}

// What the server rejects is reported in its words.
func TestCreateErrors(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	for name, test := range map[string]struct {
		change func(*runtime.Spec)
		words  string
	}{
		"networks":      {func(s *runtime.Spec) { s.Networks = []string{"egress"} }, "NetworkPolicy"},
		"an id":         {func(s *runtime.Spec) { s.ID = "Not_A_Name" }, "Not_A_Name"},
		"no id":         {func(s *runtime.Spec) { s.ID = "" }, "not valid in a pod's name"},
		"a workload":    {func(s *runtime.Spec) { s.Workload = "not a label" }, "not a label"},
		"a resolver":    {func(s *runtime.Spec) { s.DNS = []string{"nonsense"} }, "nonsense"},
		"a port":        {func(s *runtime.Spec) { s.Ports = []int{700000} }, "containerPort"},
		"one target":    {func(s *runtime.Spec) { s.Volumes = append(s.Volumes, s.Volumes[0]) }, "must be unique"},
		"little memory": {func(s *runtime.Spec) { s.Limits.Memory = -1; s.Image = "" }, "names none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := newSpec(t)
			test.change(&spec)
			err := rt.Create(t.Context(), spec)
			require.Error(t, err)
			require.ErrorContains(t, err, test.words)
			if name != "little memory" {
				require.ErrorIs(t, err, runtime.ErrInvalid)
			}
		})
	}
}

// Pod Security: the baseline level admits Hostler's pods, and the error of the
// restricted level is reported.
func TestPodSecurity(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]error{"baseline": nil, "restricted": runtime.ErrInvalid} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			namespace := createSecuredNamespace(t, level)
			rt := openRuntime(t, func(o *kubernetes.Options) { o.Namespace = namespace })
			spec := newSpec(t)
			err := rt.Create(t.Context(), spec)
			require.ErrorIs(t, err, want)
			if want != nil {
				require.ErrorContains(t, err, "violates PodSecurity")
				return
			}
			require.NoError(t, rt.Start(t.Context(), spec.ID, 1))
			require.NoError(t, rt.Destroy(t.Context(), spec.ID))
		})
	}
}

// createSecuredNamespace creates a namespace that admits only this level.
func createSecuredNamespace(t *testing.T, level string) string {
	t.Helper()
	c, namespace := needCluster(t), run+"-"+level+"-"+uuid.NewString()[:4]
	require.NoError(t, c.MakeNamespace(t.Context(), namespace))
	t.Cleanup(func() { require.NoError(t, c.RemoveNamespace(context.Background(), namespace)) })
	require.NoError(t, c.Do(t.Context(), http.MethodPatch, "/api/v1/namespaces/"+namespace,
		`{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "`+level+`"}}}`, nil))
	return namespace
}

// Without root the workload's user must be a number.
func TestNonRootCreateErrors(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t, func(o *kubernetes.Options) { o.NonRoot = true })
	for user, words := range map[string]string{"0": "above 0", "alice": "alice", "1000:staff": "staff", "-1": "above 0"} {
		spec := newSpec(t)
		spec.User = user
		err := rt.Create(t.Context(), spec)
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorContains(t, err, words)
	}
	spec := newSpec(t)
	spec.User, spec.Volumes[0].ReadOnly = "1000", true
	require.ErrorContains(t, rt.Create(t.Context(), spec), "volume data")
}

// Directories of an image that its user may not enter do not prevent the proof
// that a container is clean, and hide nothing that this user could have changed.
func TestNonRootUnreadableDirs(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t, func(o *kubernetes.Options) { o.NonRoot = true })
	id := startContainer(t, rt, func(s *runtime.Spec) {
		s.Image, s.User, s.Command = testImages(t).users, "1001:1001", []string{"/usr/bin/box", "idle"}
	})
	require.NoError(t, rt.RecordBaseline(t.Context(), id, 1))
	result, err := rt.Exec(t.Context(), id, runtime.Command{Args: []string{"/usr/bin/box", "write", "/root/file", "x"}})
	require.NoError(t, err)
	require.False(t, result.OK(), "/root is closed")
	require.NoError(t, rt.Wipe(t.Context(), id, 1))
}
