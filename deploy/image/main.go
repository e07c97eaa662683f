// Command image makes Hostler's container image of programs that were built
// before, without a container engine and without a registry. The same programs
// give the same bytes.
//
//	image -o FILE -tag NAME:TAG [-arch ARCH] hostler hostler-shim
//
// What it writes is an archive for `docker load` and `ctr images import`. It
// holds what deploy/Dockerfile makes: the two programs, the certificates by
// which registries and databases are known, a name for the user, and an empty
// folder for the data. deploy/Dockerfile is for those who build with an engine.
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
		return errors.New("-o, -tag and the programs are needed")
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

// build makes an image with one layer. Programs change with every build, and
// all else is small.
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
		// In a container, only other addresses than its own are of use.
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

// write puts the archive in place when it is whole.
func write(path string, ref name.Tag, img v1.Image) error {
	part, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".part-*")
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	defer os.Remove(part.Name()) //nolint:errcheck // in place by then, or of no use
	err = tarball.Write(ref, img, part)
	if err = errors.Join(err, part.Chmod(0o644), part.Close()); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return os.Rename(part.Name(), path)
}
