package e2e

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/clustertest"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/kubernetes"
)

// kubernetesBackend is the Kubernetes node of this machine.
type kubernetesBackend struct{}

func (kubernetesBackend) name() string                             { return "kubernetes" }
func (kubernetesBackend) program(_ testing.TB, name string) string { return "/" + name }

func (kubernetesBackend) unavailable() error {
	_, err := localCluster()
	return err
}

func (kubernetesBackend) args(t testing.TB) []string {
	t.Helper()
	c, err := localCluster()
	require.NoError(t, err)
	return []string{"--kubeconfig", c.Kubeconfig(), "--namespace", runID, "--shim-image", images(t).shim}
}

func (kubernetesBackend) image(t testing.TB) string {
	t.Helper()
	return images(t).programs
}

// pushedImages are images in a registry in this process, from which the node can
// pull because it is this machine. The image nothing does not exist.
type pushedImages struct{ programs, examples, shim, nothing string }

func images(t testing.TB) pushedImages {
	t.Helper()
	p, err := pushImages()
	require.NoError(t, err)
	return p
}

var pushImages = sync.OnceValues(func() (pushedImages, error) {
	dir, err := builtPrograms()
	if err != nil {
		return pushedImages{}, err
	}
	r := clustertest.NewRegistry()
	cleanUpAtEnd(func(context.Context) error { r.Close(); return nil })
	in := func(name string) string { return filepath.Join(dir, name) }
	p := pushedImages{nothing: r.Ref(runID + "/nothing:1")}
	if p.programs, err = r.Push(runID+"/programs:1", withImageHooks(dir, map[string]string{"box": in("box"), "app": in("app")})); err != nil {
		return p, err
	}
	if files, err := exampleFiles(); err == nil { // the tests of examples skip without them
		if p.examples, err = r.Push(runID+"/examples:1", files); err != nil {
			return p, err
		}
	}
	p.shim, err = r.Push(runID+"/hostler:1", map[string]string{"usr/local/bin/hostler-shim": in("hostler-shim")})
	return p, err
})

func (kubernetesBackend) open(t testing.TB, instance, _ string, secret []byte) runtime.Runtime {
	t.Helper()
	c, err := localCluster()
	require.NoError(t, err)
	rt, err := kubernetes.New(kubernetes.Options{
		Instance: instance, Secret: secret, ShimImage: images(t).shim, Kubeconfig: c.Kubeconfig(), Namespace: runID,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	return rt
}

func (kubernetesBackend) proxyEngine(t testing.TB) (*proxy, []string, []string) {
	t.Helper()
	c, err := localCluster()
	require.NoError(t, err)
	to, err := url.Parse(c.Config.Host)
	require.NoError(t, err)
	p := newProxy(t, "tcp", freeAddress(), func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", to.Host)
	})
	return p, []string{"--kubeconfig", kubeconfigFor(t, "https://"+p.address)}, nil
}

// incarnation returns the pod's UID and its current container.
func (kubernetesBackend) incarnation(t testing.TB, _ *server, id string) string {
	t.Helper()
	p := podOf(t, id)
	return fmt.Sprint(p.Metadata.UID, p.Status.ContainerStatuses)
}

// hasProcess searches this machine's processes, which include those of its pods.
func (kubernetesBackend) hasProcess(t testing.TB, id, marker string) bool {
	t.Helper()
	uid := podOf(t, id).Metadata.UID
	for _, p := range processes(t, marker) {
		group, err := os.ReadFile(filepath.Join(p, "cgroup"))
		if err == nil && strings.Contains(strings.ReplaceAll(string(group), "_", "-"), uid) {
			return true
		}
	}
	return false
}

func (kubernetesBackend) leftovers(t testing.TB, s *server) []string {
	t.Helper()
	return podsOf(t, s.instance)
}
