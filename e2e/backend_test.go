package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/clustertest"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/docker"
	"github.com/hostler/hostler/runtime/process"
)

// backend is a runtime that servers are tested on.
type backend interface {
	// name returns its name for serve --runtime.
	name() string
	// unavailable returns why it is not available here, or nil.
	unavailable() error
	// args returns the arguments with which serve finds it.
	args(t testing.TB) []string
	// image returns the image of its containers, with all programs in it.
	image(t testing.TB) string
	// program returns the path of a program in its containers.
	program(t testing.TB, name string) string
	// open opens it for the test, next to the server.
	open(t testing.TB, instance, data string, secret []byte) runtime.Runtime
	// proxyEngine returns a proxy to it, which is cut, and the arguments and the
	// environment with which serve uses the proxy. A backend that is always
	// available has none.
	proxyEngine(t testing.TB) (p *proxy, args, env []string)
	// incarnation returns a value that distinguishes a container from another
	// with the same id.
	incarnation(t testing.TB, s *server, id string) string
	// hasProcess reports whether a process with a marker among its arguments
	// runs in a container.
	hasProcess(t testing.TB, id, marker string) bool
	// leftovers returns all that is left of an installation's containers.
	leftovers(t testing.TB, s *server) []string
}

// forEachBackend runs a test of what a backend could do differently on each of
// them, in parallel with others.
func forEachBackend(t *testing.T, test func(t *testing.T, rt backend)) {
	t.Helper()
	forBackends(t, []backend{dockerBackend{}, processBackend{}, kubernetesBackend{}}, test)
}

// forAnyBackend runs a test whose subject is in the server on the process
// backend, and on those that have what that one lacks. Each run repeats a part of
// these tests on every backend, and a full one all.
func forAnyBackend(t *testing.T, test func(t *testing.T, rt backend), more ...backend) {
	t.Helper()
	if testenv.Selects(10, t.Name()) {
		forEachBackend(t, test)
		return
	}
	forBackends(t, append(more, processBackend{}), test)
}

// forEachEngine runs a test on each backend whose engine can be unavailable.
func forEachEngine(t *testing.T, test func(t *testing.T, rt backend)) {
	t.Helper()
	forBackends(t, []backend{dockerBackend{}, kubernetesBackend{}}, test)
}

func forBackends(t *testing.T, all []backend, test func(t *testing.T, rt backend)) {
	t.Helper()
	for _, rt := range all {
		t.Run(rt.name(), func(t *testing.T) {
			t.Parallel()
			leaveToSecondPass(t)
			requireBackend(t, rt)
			test(t, rt)
		})
	}
}

// smokeTests also run in the first pass, on the process backend.
var smokeTests = []string{"TestLifecycleByCommandLine", "TestCommands", "TestStateFollowsTenant"}

// leaveToSecondPass skips a test of the programs in the first pass. Most wait for
// other processes most of their time.
func leaveToSecondPass(t testing.TB) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	if !slices.Contains(smokeTests, name) {
		testenv.InSecondPass(t, "it starts programs")
	}
}

// requireBackend skips the test if the backend is not available, and fails it if
// the backend is required.
func requireBackend(t testing.TB, rt backend) {
	t.Helper()
	err := rt.unavailable()
	if err == nil {
		return
	}
	testenv.Skip(t, rt.name(), "there is no %s: %v", rt.name(), err)
}

// workload returns a workload file for a backend. In rest, BOX and APP are
// replaced with the paths of the programs.
func workload(t testing.TB, rt backend, id, rest string) string {
	t.Helper()
	container, app := rt.program(t, "box"), rt.program(t, "app")
	text := fmt.Sprintf("id: %s\nimage: %s\ncommand: [BOX, idle]\nvolumes: { state: { target: /state } }\n%s",
		id, rt.image(t), rest)
	return strings.NewReplacer("BOX", `"`+container+`"`, "APP", `"`+app+`"`).Replace(text)
}

// dockerBackend is the Docker engine of this machine.
type dockerBackend struct{}

func (dockerBackend) name() string                             { return "docker" }
func (dockerBackend) args(testing.TB) []string                 { return nil }
func (dockerBackend) program(_ testing.TB, name string) string { return "/" + name }

func (dockerBackend) unavailable() error {
	_, err := localEngine()
	return err
}

func (dockerBackend) image(t testing.TB) string {
	t.Helper()
	ref, err := importedImage()
	require.NoError(t, err)
	return ref
}

// importedImage creates the image of the tests on the engine of this machine.
var importedImage = sync.OnceValues(func() (string, error) { return importImage("") })

// importImage creates the image of the tests, which has only the test programs.
// An empty host is the engine of this machine.
func importImage(host string) (string, error) {
	dir, err := builtPrograms()
	if err != nil {
		return "", err
	}
	files := map[string]string{}
	for _, name := range []string{"box", "app", "hostler"} {
		files[name] = filepath.Join(dir, name)
	}
	return importFiles(host, "programs", withImageHooks(dir, files))
}

// importFiles creates an image of files of this machine.
func importFiles(host, name string, files map[string]string) (string, error) {
	rootfs, err := clustertest.Pack(files)
	if err != nil {
		return "", err
	}
	rt, err := openDocker(host, runID, []byte("unused"))
	if err != nil {
		return "", err
	}
	ref := runID + "/" + name + ":latest"
	cleanUpAtEnd(func(ctx context.Context) error { return rt.Purge(ctx, ref) })
	return ref, rt.Import(context.Background(), ref, bytes.NewReader(rootfs))
}

// openDocker opens the engine for an instance. Except for containers, what the
// instance has created is removed after all tests, because they share the
// network and the shim.
func openDocker(host, instance string, secret []byte) (*docker.Runtime, error) {
	dir, err := builtPrograms()
	if err != nil {
		return nil, err
	}
	rt, err := docker.New(context.Background(), docker.Options{
		Host: host, Instance: instance, Secret: secret, ShimPath: filepath.Join(dir, "hostler-shim"),
	})
	if err == nil {
		cleanUpAtEnd(func(ctx context.Context) error { return rt.Purge(ctx) })
	}
	return rt, err
}

func (dockerBackend) open(t testing.TB, instance, _ string, secret []byte) runtime.Runtime {
	t.Helper()
	rt, err := openDocker("", instance, secret)
	require.NoError(t, err)
	return rt
}

func (dockerBackend) proxyEngine(t testing.TB) (*proxy, []string, []string) {
	t.Helper()
	e, err := localEngine()
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "e2e-") // short, for the path of a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	p := newProxy(t, "unix", filepath.Join(dir, "sock"), e.dial)
	return p, nil, []string{"DOCKER_HOST=unix://" + p.address}
}

// incarnation returns the engine's own id.
func (dockerBackend) incarnation(t testing.TB, _ *server, id string) string {
	t.Helper()
	var c struct{ ID string }
	engineGet(t, "/containers/hostler-"+id+"/json", &c)
	return c.ID
}

func (dockerBackend) hasProcess(t testing.TB, id, marker string) bool {
	t.Helper()
	var top struct{ Processes [][]string }
	engineGet(t, "/containers/hostler-"+id+"/top", &top)
	return strings.Contains(fmt.Sprint(top.Processes), marker)
}

func (dockerBackend) leftovers(t testing.TB, s *server) []string {
	t.Helper()
	return ofInstance(t, s.instance)
}

// processBackend is the process runtime.
type processBackend struct{}

func (processBackend) name() string                             { return "process" }
func (processBackend) unavailable() error                       { return nil }
func (processBackend) args(testing.TB) []string                 { return nil }
func (processBackend) image(testing.TB) string                  { return "none" }
func (processBackend) program(t testing.TB, name string) string { return program(t, name) }

func (processBackend) open(t testing.TB, _, data string, secret []byte) runtime.Runtime {
	t.Helper()
	rt, err := process.New(process.Options{Dir: filepath.Join(data, "process"), ShimPath: program(t, "hostler-shim"), Secret: secret})
	require.NoError(t, err)
	return rt
}

func (processBackend) proxyEngine(t testing.TB) (*proxy, []string, []string) {
	t.Helper()
	require.FailNow(t, "the process runtime has no engine")
	return nil, nil, nil
}

// incarnation returns the record of its process.
func (processBackend) incarnation(t testing.TB, s *server, id string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.data, "process", "run", id))
	require.NoError(t, err)
	return string(b)
}

func (processBackend) hasProcess(t testing.TB, id, marker string) bool {
	t.Helper()
	for _, p := range processes(t, marker) {
		env, err := os.ReadFile(filepath.Join(p, "environ"))
		if err == nil && bytes.Contains(env, []byte(id)) {
			return true
		}
	}
	return false
}

// leftovers returns directories and processes.
func (processBackend) leftovers(t testing.TB, s *server) []string {
	t.Helper()
	var all []string
	for _, dir := range []string{"containers", "run"} {
		entries, err := os.ReadDir(filepath.Join(s.data, "process", dir))
		require.NoError(t, err)
		for _, e := range entries {
			all = append(all, filepath.Join(dir, e.Name()))
		}
	}
	for _, p := range processesOf(t, s.data) {
		if p != fmt.Sprintf("/proc/%d", s.cmd.Process.Pid) {
			all = append(all, p)
		}
	}
	return all
}
