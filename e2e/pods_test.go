package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/kubernetes"
)

// kubernetesBackend is the Kubernetes node of this machine.
type kubernetesBackend struct{}

func (kubernetesBackend) name() string                             { return "kubernetes" }
func (kubernetesBackend) program(_ testing.TB, name string) string { return "/" + name }

func (kubernetesBackend) missing() error {
	_, err := theCluster()
	return err
}

func (kubernetesBackend) args(t testing.TB) []string {
	t.Helper()
	c, err := theCluster()
	require.NoError(t, err)
	return []string{"--kubeconfig", c.kubeconfig(), "--namespace", run, "--shim-image", images(t).shim}
}

func (kubernetesBackend) image(t testing.TB) string {
	t.Helper()
	return images(t).programs
}

// pushed are images in a registry of this process. The node is this machine,
// so it can pull from there.
type pushed struct{ programs, shim string }

func images(t testing.TB) pushed {
	t.Helper()
	p, err := pushOnce()
	require.NoError(t, err)
	return p
}

var pushOnce = sync.OnceValues(func() (pushed, error) {
	dir, err := built()
	if err != nil {
		return pushed{}, err
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	atEnd(func(context.Context) error { server.Close(); return nil })
	at := strings.TrimPrefix(server.URL, "http://") + "/" + run
	p := pushed{programs: at + "/programs:1", shim: at + "/hostler:1"}
	if err := push(p.programs, map[string]string{"box": filepath.Join(dir, "box"), "app": filepath.Join(dir, "app")}); err != nil {
		return p, err
	}
	return p, push(p.shim, map[string]string{"usr/local/bin/hostler-shim": filepath.Join(dir, "hostler-shim")})
})

// push makes an image that holds nothing but these files.
func push(ref string, files map[string]string) error {
	rootfs, err := pack(files)
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(rootfs)), nil
	})
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", goruntime.GOARCH
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return err
	}
	to, err := name.ParseReference(ref)
	if err != nil {
		return err
	}
	return remote.Write(to, image)
}

// pack makes a root filesystem of programs: where each is there, and here.
func pack(files map[string]string) ([]byte, error) {
	var rootfs bytes.Buffer
	w := tar.NewWriter(&rootfs)
	for name, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	return rootfs.Bytes(), w.Close()
}

func (kubernetesBackend) open(t testing.TB, instance, _ string, secret []byte) runtime.Runtime {
	t.Helper()
	c, err := theCluster()
	require.NoError(t, err)
	rt, err := kubernetes.New(kubernetes.Options{
		Instance: instance, Secret: secret, ShimImage: images(t).shim, Kubeconfig: c.kubeconfig(), Namespace: run,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	return rt
}

func (kubernetesBackend) detour(t testing.TB) (*proxy, []string, []string) {
	t.Helper()
	c, err := theCluster()
	require.NoError(t, err)
	to, err := url.Parse(c.config.Host)
	require.NoError(t, err)
	p := newProxy(t, "tcp", "127.0.0.1:0", func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", to.Host)
	})
	return p, []string{"--kubeconfig", c.kubeconfigFor(t, "https://"+p.address)}, nil
}

// incarnation is the pod, and which of the containers that it has had.
func (kubernetesBackend) incarnation(t testing.TB, _ *server, id string) string {
	t.Helper()
	p := podOf(t, id)
	return fmt.Sprint(p.Metadata.UID, p.Status.ContainerStatuses)
}

// runs looks among this machine's processes, which those of its pods are.
func (kubernetesBackend) runs(t testing.TB, id, marker string) bool {
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

func (kubernetesBackend) left(t testing.TB, s *server) []string {
	t.Helper()
	return podsOf(t, s.instance)
}
