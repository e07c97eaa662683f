package clustertest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	goruntime "runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Registry is an in-memory image registry.
type Registry struct{ server *httptest.Server }

// NewRegistry starts a registry on this machine. The caller must close it.
func NewRegistry() *Registry {
	quiet := registry.Logger(log.New(io.Discard, "", 0))
	return &Registry{httptest.NewServer(registry.New(quiet))}
}

// Close stops the registry.
func (r *Registry) Close() { r.server.Close() }

// Ref returns the reference of an image of this registry, existing or not.
func (r *Registry) Ref(image string) string {
	return strings.TrimPrefix(r.server.URL, "http://") + "/" + image
}

// Push pushes an image that contains only the given programs, as a map from the
// path in the image to the path on this machine.
func (r *Registry) Push(image string, files map[string]string) (ref string, err error) {
	rootfs, err := Pack(files)
	if err != nil {
		return "", fmt.Errorf("pack the image %s: %w", image, err)
	}
	return r.PushRootfs(image, v1.Config{}, rootfs)
}

// PushRootfs pushes an image with a configuration and a root filesystem, which
// is a tar stream.
func (r *Registry) PushRootfs(image string, config v1.Config, rootfs []byte) (ref string, err error) {
	ref = r.Ref(image)
	if err := push(ref, config, rootfs); err != nil {
		return "", fmt.Errorf("push the image %s: %w", ref, err)
	}
	return ref, nil
}

func push(ref string, config v1.Config, rootfs []byte) error {
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
	file.OS, file.Architecture, file.Config = "linux", goruntime.GOARCH, config
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return err
	}
	to, err := name.ParseReference(ref)
	if err != nil {
		return err
	}
	return remote.Write(to, image)
}

// Pack returns a root filesystem of the given programs as a tar stream.
func Pack(files map[string]string) ([]byte, error) {
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
