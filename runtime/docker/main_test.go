package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/client"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/docker"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// instance names this run of the tests. Its label is on everything they create.
var instance = "test-" + uuid.NewString()[:8]

// The images of the tests: only the test program and what is named.
var (
	imageTestprog = instance + "/box:latest"   // as root, in /, without a command
	imageUsers    = instance + "/users:latest" // with accounts, a user and a command
)

var secret = []byte("a secret of the tests")

// engine returns the engine of this machine, or the reason why there is none.
var engine = sync.OnceValues(func() (*client.Client, error) {
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = api.Ping(ctx)
	return api, err
})

// engineImagesByHost has the engines on which the images are, by their address.
var engineImagesByHost sync.Map // of *preparation

// engineImages prepares the images of one engine. Its backend removes everything
// at the end.
type engineImages struct {
	once sync.Once
	rt   *docker.Runtime
}

func TestMain(m *testing.M) {
	testenv.Parallel(6)
	code := m.Run()
	engineImagesByHost.Range(func(_, p any) bool {
		if err := purge(p.(*engineImages).rt); err != nil {
			fmt.Fprintln(os.Stderr, "clean up after the tests:", err)
			code = max(code, 1)
		}
		return true
	})
	os.Exit(code)
}

func purge(rt *docker.Runtime) error {
	if rt == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return rt.Purge(ctx, imageTestprog, imageUsers, imageAttacked(0), imageAttacked(1001))
}

// needEngine skips the test visibly if there is no engine, and fails it if one is
// required.
func needEngine(t testing.TB) *client.Client {
	t.Helper()
	api, err := engine()
	if err == nil {
		return api
	}
	testenv.Skip(t, "docker", "no Docker engine responds: %v", err)
	return nil
}

// options returns those of the tests' backend.
func options(t testing.TB) docker.Options {
	return docker.Options{Instance: instance, Secret: secret, ShimPath: runtimetest.BuildShim(t)}
}

// openRuntime connects to the engine and ensures that the images exist.
func openRuntime(t testing.TB, change ...func(*docker.Options)) *docker.Runtime {
	t.Helper()
	needEngine(t)
	importImages(t, "")
	return connect(t, change...)
}

// connect connects to an engine without preparing it.
func connect(t testing.TB, change ...func(*docker.Options)) *docker.Runtime {
	t.Helper()
	o := options(t)
	for _, f := range change {
		f(&o)
	}
	rt, err := docker.New(context.Background(), o)
	require.NoError(t, err, "New")
	t.Cleanup(func() { require.NoError(t, rt.Close(), "Close") })
	return rt
}

// importImages builds what the tests run, from scratch: no registry, no shell.
// An empty host is the engine of this machine.
func importImages(t testing.TB, host string) {
	t.Helper()
	found, _ := engineImagesByHost.LoadOrStore(host, &engineImages{})
	p := found.(*engineImages)
	p.once.Do(func() {
		o := options(t)
		o.Host = host
		rt, err := docker.New(context.Background(), o)
		require.NoError(t, err, "New")
		p.rt = rt
		testprog, err := os.ReadFile(runtimetest.BuildTestprog(t))
		require.NoError(t, err)
		plain := map[string]string{"box": string(testprog), "tool": buildProgram(t, "tool"), "echo": buildProgram(t, "echo")}
		require.NoError(t, rt.Import(context.Background(), imageTestprog, rootfs(t, plain)))
		users := map[string]string{
			"usr/bin/box": string(testprog),
			"etc/passwd":  "root:x:0:0:root:/root:/sbin/nologin\nalice:x:1001:1001::/home/alice:/sbin/nologin\n",
			"etc/group":   "root:x:0:\nalice:x:1001:\nstaff:x:50:alice\n",
			"home/alice/": "",
		}
		require.NoError(t, rt.Import(context.Background(), imageUsers, rootfs(t, users),
			`USER alice`, `WORKDIR /home/alice`, `ENV FROM_IMAGE=yes PATH=/usr/bin`,
			`ENTRYPOINT ["box"]`, `CMD ["idle"]`))
	})
	require.NotNil(t, p.rt, "the images could not be created")
}

// buildProgram builds a program of testdata and returns its content.
func buildProgram(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "./testdata/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

// rootfs packs files, and directories whose names end in a slash.
func rootfs(t testing.TB, files map[string]string) *bytes.Buffer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for name, content := range files {
		h := &tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		require.NoError(t, w.WriteHeader(h))
		_, err := w.Write([]byte(content))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return &buf
}

// newSpec is a container that idles, with a volume at /data.
func newSpec() runtime.Spec {
	return runtime.Spec{
		ID: uuid.NewString(), Workload: "test", Revision: "r1",
		Image: imageTestprog, Command: []string{"/box", "idle"}, Workdir: "/data",
		Volumes: []runtime.Volume{{Name: "data", Target: "/data"}},
	}
}

// startContainer creates and starts a container that is destroyed when the test
// ends.
func startContainer(t testing.TB, rt *docker.Runtime, change ...func(*runtime.Spec)) string {
	t.Helper()
	spec := newSpec()
	for _, f := range change {
		f(&spec)
	}
	t.Cleanup(func() { require.NoError(t, rt.Destroy(context.Background(), spec.ID), "Destroy") })
	require.NoError(t, rt.Create(t.Context(), spec), "Create")
	require.NoError(t, rt.Start(t.Context(), spec.ID, 1), "Start")
	return spec.ID
}

// mustExec runs a command that must succeed and returns its output.
func mustExec(t testing.TB, rt *docker.Runtime, id string, args ...string) string {
	t.Helper()
	result, err := rt.Exec(t.Context(), id, runtime.Command{Args: args})
	require.NoError(t, err, "Exec %q", args)
	require.True(t, result.OK(), "Exec %q: %+v", args, result)
	return result.Stdout.String()
}
