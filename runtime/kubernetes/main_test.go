package kubernetes_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/clustertest"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/kubernetes"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// run names this run of the tests: its namespace, its instance, its images.
var run = "test-" + uuid.NewString()[:8]

// maxWait bounds a call while the server is unavailable, and clusterWait the wait for
// what the cluster does soon: its kubelet may be slow on a busy machine.
const (
	maxWait      = 30 * time.Second
	clusterWait  = 3 * time.Minute
	pollInterval = 20 * time.Millisecond
)

var secret = []byte("a secret of the tests")

// cluster returns the cluster of this machine with a namespace for this run, or
// the reason why there is none.
var cluster = sync.OnceValues(func() (*clustertest.Cluster, error) {
	c, err := clustertest.Find()
	if err != nil {
		return nil, err
	}
	createdCluster = c
	ctx, cancel := context.WithTimeout(context.Background(), clusterWait)
	defer cancel()
	return c, c.MakeNamespace(ctx, run)
})

// createdCluster is where TestMain removes what was created.
var createdCluster *clustertest.Cluster

func TestMain(m *testing.M) {
	testenv.Parallel(6)
	code := m.Run()
	if createdCluster != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := createdCluster.RemoveNamespace(ctx, run); err != nil {
			fmt.Fprintln(os.Stderr, "clean up after the tests:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// pod returns the path of a container's pod.
func pod(id string) string { return "/api/v1/namespaces/" + run + "/pods/hostler-" + id }

// needCluster skips the test visibly if there is no cluster, and fails it if one
// is required.
func needCluster(t testing.TB) *clustertest.Cluster {
	t.Helper()
	c, err := cluster()
	if err == nil {
		return c
	}
	testenv.Skip(t, "kubernetes", "no Kubernetes cluster responds (see e2e/cluster/README.md for how to start one): %v", err)
	return nil
}

// The images of the tests, in a registry of this process. The cluster's node is
// this machine.
type images struct {
	shim     string // the part of Hostler's own image that is needed here
	testprog string // as root, in /, without a command
	users    string // with accounts, a user and a command
}

var pushedImages images

var pushImages sync.Once

func testImages(t testing.TB) images {
	t.Helper()
	pushImages.Do(func() {
		testprog, err := os.ReadFile(runtimetest.BuildTestprog(t))
		require.NoError(t, err)
		r := clustertest.NewRegistry() // ends with this process
		shim, err := r.Push(run+"/hostler:1", map[string]string{"usr/local/bin/hostler-shim": runtimetest.BuildShim(t)})
		require.NoError(t, err)
		plain, err := r.PushRootfs(run+"/box:1", v1.Config{}, rootfs(t, map[string]string{"box": string(testprog)}))
		require.NoError(t, err)
		users, err := r.PushRootfs(run+"/users:1", v1.Config{
			User: "alice", WorkingDir: "/home/alice", Env: []string{"FROM_IMAGE=yes", "PATH=/usr/bin"},
			Entrypoint: []string{"box"}, Cmd: []string{"idle"},
		}, rootfs(t, map[string]string{
			"usr/bin/box": string(testprog),
			"etc/passwd":  "root:x:0:0:root:/root:/sbin/nologin\nalice:x:1001:1001::/home/alice:/sbin/nologin\n",
			"etc/group":   "root:x:0:\nalice:x:1001:\nstaff:x:50:alice\n",
			"home/alice/": "",
			"root/":       "",
		}))
		require.NoError(t, err)
		pushedImages = images{shim: shim, testprog: plain, users: users}
	})
	require.NotEmpty(t, pushedImages.users, "the images could not be created")
	return pushedImages
}

// rootfs packs files, and directories whose names end in a slash. That of root is
// closed to others, as usual.
func rootfs(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for name, content := range files {
		h := &tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if name == "root/" {
			h.Mode = 0o700
		}
		require.NoError(t, w.WriteHeader(h))
		_, err := w.Write([]byte(content))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return buf.Bytes()
}

// openRuntime connects to the cluster and ensures that the images exist.
func openRuntime(t testing.TB, change ...func(*kubernetes.Options)) *kubernetes.Runtime {
	t.Helper()
	o := kubernetes.Options{
		Instance: run, Secret: secret, ShimImage: testImages(t).shim, Kubeconfig: needCluster(t).Kubeconfig(), Namespace: run,
	}
	for _, f := range change {
		f(&o)
	}
	rt, err := kubernetes.New(o)
	require.NoError(t, err, "New")
	t.Cleanup(func() { require.NoError(t, rt.Close(), "Close") })
	return rt
}

// newSpec is a container that idles, with a volume at /data.
func newSpec(t testing.TB) runtime.Spec {
	t.Helper()
	return runtime.Spec{
		ID: uuid.NewString(), Workload: "test", Revision: "r1", User: "0:0",
		Image: testImages(t).testprog, Command: []string{"/box", "idle"}, Workdir: "/data",
		Volumes: []runtime.Volume{{Name: "data", Target: "/data"}},
	}
}

// startContainer creates and starts a container that is destroyed when the test
// ends.
func startContainer(t testing.TB, rt *kubernetes.Runtime, change ...func(*runtime.Spec)) string {
	t.Helper()
	spec := newSpec(t)
	for _, f := range change {
		f(&spec)
	}
	t.Cleanup(func() { runtimetest.Destroy(t, rt, spec.ID) })
	require.NoError(t, rt.Create(t.Context(), spec), "Create")
	require.NoError(t, rt.Start(t.Context(), spec.ID, 1), "Start")
	return spec.ID
}

// mustExec runs a command that must succeed and returns its output.
func mustExec(t testing.TB, rt *kubernetes.Runtime, id string, args ...string) string {
	t.Helper()
	result, err := rt.Exec(t.Context(), id, runtime.Command{Args: args})
	require.NoError(t, err, "Exec %q", args)
	require.True(t, result.OK(), "Exec %q: %+v", args, result)
	return result.Stdout.String()
}
