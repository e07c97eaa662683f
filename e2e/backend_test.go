package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
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

// backend is one that servers are tested on.
type backend interface {
	// name is what serve calls it.
	name() string
	// unavailable is why it cannot be had here; nil when it can.
	unavailable() error
	// args are what serve needs to find it.
	args(t testing.TB) []string
	// image is what its containers are made of, with all programs in it.
	image(t testing.TB) string
	// program is where its containers see a program.
	program(t testing.TB, name string) string
	// open opens it beside the server.
	open(t testing.TB, instance, data string, secret []byte) runtime.Runtime
	// proxyEngine makes a way to it that can be cut, and is, and says how serve is
	// told to go there. A backend that can never be away has none.
	proxyEngine(t testing.TB) (way *proxy, args, env []string)
	// incarnation tells a container from another that took its place.
	incarnation(t testing.TB, s *server, id string) string
	// hasProcess says whether a process with a marker among its arguments runs in a
	// container.
	hasProcess(t testing.TB, id, marker string) bool
	// leftovers is everything that there is of an installation's containers.
	leftovers(t testing.TB, s *server) []string
}

// forEachBackend runs a test on each backend, at the same time as others.
func forEachBackend(t *testing.T, test func(t *testing.T, rt backend)) {
	t.Helper()
	forBackends(t, []backend{dockerBackend{}, processBackend{}, kubernetesBackend{}}, test)
}

// forEachEngine is forEachBackend without the backend that can never be away.
func forEachEngine(t *testing.T, test func(t *testing.T, rt backend)) {
	t.Helper()
	forBackends(t, []backend{dockerBackend{}, kubernetesBackend{}}, test)
}

func forBackends(t *testing.T, all []backend, test func(t *testing.T, rt backend)) {
	t.Helper()
	for _, rt := range all {
		t.Run(rt.name(), func(t *testing.T) {
			t.Parallel()
			requireBackend(t, rt)
			test(t, rt)
		})
	}
}

// requireBackend skips, loudly, where the backend is not to be had, and fails where it
// has to be.
func requireBackend(t testing.TB, rt backend) {
	t.Helper()
	err := rt.unavailable()
	if err == nil {
		return
	}
	testenv.Skip(t, rt.name(), "there is no %s: %v", rt.name(), err)
}

// workload is a workload file of a backend. In what follows the head, BOX and
// APP are the programs.
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

// importedImage makes the image of the tests on the engine of this machine.
var importedImage = sync.OnceValues(func() (string, error) { return importImage("") })

// importImage makes the image of the tests, out of nothing but our programs. An
// empty host is the engine of this machine.
func importImage(host string) (string, error) {
	dir, err := builtPrograms()
	if err != nil {
		return "", err
	}
	files := map[string]string{}
	for _, name := range []string{"box", "app", "hostler"} {
		files[name] = filepath.Join(dir, name)
	}
	rootfs, err := clustertest.Pack(files)
	if err != nil {
		return "", err
	}
	rt, err := openDocker(host, runID, []byte("unused"))
	if err != nil {
		return "", err
	}
	ref := runID + "/programs:latest"
	cleanUpAtEnd(func(ctx context.Context) error { return rt.Purge(ctx, ref) })
	return ref, rt.Import(context.Background(), ref, bytes.NewReader(rootfs))
}

// openDocker opens the engine on behalf of an instance. What the instance has
// made besides containers is removed when all tests have ended: tests share
// the network and the shim.
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
	dir, err := os.MkdirTemp("", "e2e-") // a socket's path is short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	p := newProxy(t, "unix", filepath.Join(dir, "sock"), e.dial)
	return p, nil, []string{"DOCKER_HOST=unix://" + p.address}
}

// incarnation is the engine's own id.
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

// processBackend is plain processes.
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
	require.FailNow(t, "nothing is between a server and its processes")
	return nil, nil, nil
}

// incarnation is the record of its process.
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

// leftovers is folders and processes.
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
