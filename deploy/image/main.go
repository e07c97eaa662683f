// Command image builds Hostler's container image from existing programs,
// without a container engine and without a registry. The output is
// reproducible: the same programs result in the same bytes.
//
//	image -o FILE -tag NAME:TAG [-arch ARCH] hostler hostler-shim
//
// It writes an archive for `docker load` and `ctr images import`. Its contents
// are those of deploy/Dockerfile: the two programs, the CA certificates for
// registries and databases, a name for the user, and an empty directory for the
// data. deploy/Dockerfile is for builds with an engine.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run() error {
	out := flag.String("o", "", "the archive to write")
	tag := flag.String("tag", "", "the image's name and tag")
	arch := flag.String("arch", runtime.GOARCH, "what the programs were built for")
	certs := flag.String("certs", "/etc/ssl/certs/ca-certificates.crt", "certificates of the authorities to trust")
	flag.Parse()
	if *out == "" || *tag == "" || flag.NArg() == 0 {
		flag.Usage()
		return errors.New("-o, -tag and the programs are required")
	}
	ref, err := name.NewTag(*tag)
	if err != nil {
		return err
	}
	img, err := build(contents(flag.Args(), *certs), *arch, ref.TagStr())
	if err != nil {
		return err
	}
	return write(*out, ref, img)
}

// build returns an image with one layer, because the programs change with every
// build and the rest is small.
func build(files []file, arch, version string) (v1.Image, error) {
	layer, err := packLayer(files)
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, fmt.Errorf("add the layer: %w", err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	config.Config = v1.Config{
		Entrypoint:   []string{"/usr/local/bin/hostler"},
		Cmd:          []string{"serve"},
		User:         fmt.Sprintf("%d:%d", user, user),
		ExposedPorts: map[string]struct{}{"8700/tcp": {}},
		// In a container, listening on loopback only is of no use.
		Env: []string{"PATH=/usr/local/bin", "HOSTLER_DATA=" + dataDir, "HOSTLER_LISTEN=0.0.0.0:8700"},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "hostler",
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.version":  version,
		},
	}
	img, err = mutate.ConfigFile(img, config)
	if err != nil {
		return nil, fmt.Errorf("set the configuration: %w", err)
	}
	img, err = mutate.Time(img, time.Unix(0, 0).UTC())
	if err != nil {
		return nil, fmt.Errorf("set the time: %w", err)
	}
	return img, nil
}

// write writes the archive and renames it to its path when it is complete.
func write(path string, ref name.Tag, img v1.Image) error {
	part, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".part-*")
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	defer os.Remove(part.Name()) //nolint:errcheck // already renamed, or incomplete
	err = tarball.Write(ref, img, part)
	if err = errors.Join(err, part.Chmod(0o644), part.Close()); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return os.Rename(part.Name(), path)
}
