package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const (
	// user is the user id that Hostler runs as, which no machine assigns to a
	// user.
	user = 65532
	// dataDir is the directory of its records, for volumes that are mounted
	// there.
	dataDir = "/var/lib/hostler"
)

// file is one entry of the image: a copy, a text, or an empty directory.
type file struct {
	path   string
	mode   int64
	owner  int
	source string // from this machine
	text   string
}

// contents returns the image's files, directories before their contents.
func contents(programs []string, certs string) []file {
	files := []file{
		{path: "etc/", mode: 0o755},
		{path: "etc/passwd", mode: 0o644, text: fmt.Sprintf("hostler:x:%d:%d:Hostler:%s:/sbin/nologin\n", user, user, dataDir)},
		{path: "etc/group", mode: 0o644, text: fmt.Sprintf("hostler:x:%d:\n", user)},
		{path: "etc/ssl/", mode: 0o755},
		{path: "etc/ssl/certs/", mode: 0o755},
		{path: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, source: certs},
		{path: "tmp/", mode: 0o1777},
		{path: "usr/", mode: 0o755},
		{path: "usr/local/", mode: 0o755},
		{path: "usr/local/bin/", mode: 0o755},
		{path: "var/", mode: 0o755},
		{path: "var/lib/", mode: 0o755},
		{path: "var/lib/hostler/", mode: 0o700, owner: user},
	}
	for _, program := range programs {
		files = append(files, file{path: "usr/local/bin/" + filepath.Base(program), mode: 0o755, source: program})
	}
	return files
}

// packLayer returns a layer of the files. It contains no times of this machine.
func packLayer(files []file) (v1.Layer, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		content := []byte(f.text)
		if f.source != "" {
			var err error
			if content, err = os.ReadFile(f.source); err != nil {
				return nil, fmt.Errorf("put %s into the image: %w", path.Base(f.path), err)
			}
		}
		h := &tar.Header{Name: f.path, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(content))}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.path, err)
		}
		if _, err := w.Write(content); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack the layer: %w", err)
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(buf.Bytes())), nil
	})
}
