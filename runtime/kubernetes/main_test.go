package kubernetes_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/hostler/hostler/internal/required"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/kubernetes"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// run names this run of the tests: its namespace, its instance, its images.
var run = "test-" + uuid.NewString()[:8]

// patience is how long a test waits for what should come soon, and tick how
// often it looks: the cluster's time, not an order of events.
const (
	patience = 30 * time.Second
	tick     = 20 * time.Millisecond
)

var secret = []byte("a secret of the tests")

// kubeconfig is where e2e/cluster puts it, or where the environment says.
func kubeconfig() string {
	dir := os.Getenv("HOSTLER_TEST_CLUSTER")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "hostler-cluster")
	}
	return filepath.Join(dir, "kubeconfig")
}

// cluster is the cluster of this machine with a namespace for this run, and
// the reason when there is none.
var cluster = sync.OnceValues(func() (*api, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig())
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	c := &api{config: config, client: client}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err = c.do(ctx, "POST", "/api/v1/namespaces", `{"metadata":{"name":"`+run+`"}}`)
	if err != nil {
		return nil, err
	}
	made = c
	// Pods are refused before the namespace has its service account.
	for err = errFirst; err != nil && ctx.Err() == nil; {
		err = c.do(ctx, "GET", "/api/v1/namespaces/"+run+"/serviceaccounts/default", "")
	}
	return c, err
})

var errFirst = fmt.Errorf("not asked yet")

// made is what TestMain removes.
var made *api

func TestMain(m *testing.M) {
	code := m.Run()
	if made != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := made.do(ctx, "DELETE", "/api/v1/namespaces/"+run, ""); err != nil {
			fmt.Fprintln(os.Stderr, "clean up after the tests:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// api speaks to the API server without the code under test.
type api struct {
	config *rest.Config
	client *http.Client
}

func (a *api) do(ctx context.Context, method, path, body string) error {
	request, err := http.NewRequestWithContext(ctx, method, a.config.Host+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	answer, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if answer.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	return err
}

// pod is the path of a container's pod.
func pod(id string) string { return "/api/v1/namespaces/" + run + "/pods/hostler-" + id }

// needCluster skips, loudly, where there is no cluster, and fails where there
// has to be one.
func needCluster(t testing.TB) *api {
	t.Helper()
	c, err := cluster()
	if err == nil {
		return c
	}
	required.Missing(t, "kubernetes", "no Kubernetes cluster answers (start one as e2e/cluster/README.md says): %v", err)
	return nil
}

// The images of the tests, in a registry of this process. The cluster's node is
// this machine.
type images struct {
	shim  string // what Hostler's own image has of use here
	box   string // as root, in /, with no command
	users string // with accounts, a user and a command
}

var theImages images

var imagesMade sync.Once

func testImages(t testing.TB) images {
	t.Helper()
	imagesMade.Do(func() {
		server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
		host := strings.TrimPrefix(server.URL, "http://")
		box, err := os.ReadFile(runtimetest.BuildBox(t))
		require.NoError(t, err)
		program, err := os.ReadFile(runtimetest.BuildShim(t))
		require.NoError(t, err)
		theImages = images{
			shim: push(t, host+"/"+run+"/hostler:1", v1.Config{}, map[string]string{"usr/local/bin/hostler-shim": string(program)}),
			box:  push(t, host+"/"+run+"/box:1", v1.Config{}, map[string]string{"box": string(box)}),
			users: push(t, host+"/"+run+"/users:1", v1.Config{
				User: "alice", WorkingDir: "/home/alice", Env: []string{"FROM_IMAGE=yes", "PATH=/usr/bin"},
				Entrypoint: []string{"box"}, Cmd: []string{"idle"},
			}, map[string]string{
				"usr/bin/box": string(box),
				"etc/passwd":  "root:x:0:0:root:/root:/sbin/nologin\nalice:x:1001:1001::/home/alice:/sbin/nologin\n",
				"etc/group":   "root:x:0:\nalice:x:1001:\nstaff:x:50:alice\n",
				"home/alice/": "",
				"root/":       "",
			}),
		}
	})
	require.NotEmpty(t, theImages.users, "the images could not be made")
	return theImages
}

// push makes an image of one layer and gives its reference.
func push(t testing.TB, image string, config v1.Config, files map[string]string) string {
	t.Helper()
	content := rootfs(t, files)
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	})
	require.NoError(t, err)
	img, err := mutate.AppendLayers(empty.Image, layer)
	require.NoError(t, err)
	file, err := img.ConfigFile()
	require.NoError(t, err)
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", "amd64", config
	img, err = mutate.ConfigFile(img, file)
	require.NoError(t, err)
	ref, err := name.ParseReference(image)
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, img))
	return image
}

// rootfs packs files, and folders whose names end in a slash. That of root is
// closed to others, as everywhere.
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

// open connects to the cluster, with the images there.
func open(t testing.TB, change ...func(*kubernetes.Options)) *kubernetes.Runtime {
	t.Helper()
	needCluster(t)
	o := kubernetes.Options{
		Instance: run, Secret: secret, ShimImage: testImages(t).shim, Kubeconfig: kubeconfig(), Namespace: run,
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
		Image: testImages(t).box, Command: []string{"/box", "idle"}, Workdir: "/data",
		Volumes: []runtime.Volume{{Name: "data", Target: "/data"}},
	}
}

// up makes and starts a container that goes when the test ends.
func up(t testing.TB, rt *kubernetes.Runtime, change ...func(*runtime.Spec)) string {
	t.Helper()
	spec := newSpec(t)
	for _, f := range change {
		f(&spec)
	}
	t.Cleanup(func() { require.NoError(t, rt.Destroy(context.Background(), spec.ID), "Destroy") })
	require.NoError(t, rt.Create(t.Context(), spec), "Create")
	require.NoError(t, rt.Start(t.Context(), spec.ID), "Start")
	return spec.ID
}

// say runs a command that has to succeed and gives what it printed.
func say(t testing.TB, rt *kubernetes.Runtime, id string, args ...string) string {
	t.Helper()
	result, err := rt.Exec(t.Context(), id, runtime.Command{Args: args})
	require.NoError(t, err, "Exec %q", args)
	require.True(t, result.OK(), "Exec %q: %+v", args, result)
	return result.Stdout.String()
}
