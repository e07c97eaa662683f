package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newRelease returns a release of two targets. Their programs are texts, and the
// lists are written by a script.
func newRelease(t *testing.T) (r *release, programs string) {
	t.Helper()
	dir := t.TempDir()
	programs = filepath.Join(dir, "programs")
	write := func(name, content string, mode os.FileMode) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), mode))
	}
	write("programs/linux-amd64/hostler", "the server", 0o700)
	write("programs/linux-amd64/hostler-shim", "the shim", 0o750)
	write("programs/windows-arm64/hostler.exe", "the command line", 0o777)
	write("LICENSE", "the licence", 0o600)
	write("systemd/hostler.service", "the unit", 0o600)
	// The file is after -output, the program is last.
	write("sbom", "#!/bin/sh\nfor last; do :; done\nwhile [ \"$1\" != -output ]; do shift; done\ncat \"$last\" > \"$2\"\n", 0o755)
	return &release{
		out: filepath.Join(dir, "out"), version: "v1.2.3", time: time.Unix(1_700_000_000, 0).UTC(),
		sbom: filepath.Join(dir, "sbom"), files: []string{filepath.Join(dir, "LICENSE")},
		linux: filepath.Join(dir, "systemd/hostler.service"),
	}, programs
}

// Each target has an archive with its programs and the common files, and a list
// for each program; all have a checksum.
func TestRelease(t *testing.T) {
	t.Parallel()
	r, programs := newRelease(t)
	require.NoError(t, r.write(programs))
	sums, err := os.ReadFile(filepath.Join(r.out, "SHA256SUMS"))
	require.NoError(t, err)
	var names []string
	for line := range strings.Lines(string(sums)) {
		sum, name, found := strings.Cut(strings.TrimSpace(line), "  ")
		require.True(t, found)
		content, err := os.ReadFile(filepath.Join(r.out, name))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%x", sha256.Sum256(content)), sum)
		names = append(names, name)
	}
	require.Equal(t, []string{
		"hostler-shim-v1.2.3-linux-amd64.cdx.json", "hostler-v1.2.3-linux-amd64.cdx.json",
		"hostler-v1.2.3-linux-amd64.tar.gz", "hostler-v1.2.3-windows-arm64.cdx.json", "hostler-v1.2.3-windows-arm64.zip",
	}, names)
	list, err := os.ReadFile(filepath.Join(r.out, names[0]))
	require.NoError(t, err)
	require.Equal(t, "the shim", string(list))
	require.Equal(t, map[string]string{
		"-rwxr-xr-x hostler-v1.2.3-linux-amd64/hostler":         "the server",
		"-rwxr-xr-x hostler-v1.2.3-linux-amd64/hostler-shim":    "the shim",
		"-rw-r--r-- hostler-v1.2.3-linux-amd64/LICENSE":         "the licence",
		"-rw-r--r-- hostler-v1.2.3-linux-amd64/hostler.service": "the unit",
	}, untar(t, r, names[2]))
	require.Equal(t, map[string]string{
		"-rwxr-xr-x hostler-v1.2.3-windows-arm64/hostler.exe": "the command line",
		"-rw-r--r-- hostler-v1.2.3-windows-arm64/LICENSE":     "the licence",
	}, unzip(t, r, names[4]))
}

// The archives of `make release` have what a server is installed with. Each file
// that the Makefile names exists.
func TestFilesOfRelease(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(makefile), "-programs bin/programs -linux ")
	require.True(t, found)
	line, _, _ := strings.Cut(rest, "\n")
	files := strings.Fields(line)
	require.Equal(t, []string{"deploy/systemd/hostler.service", "LICENSE", "README.md", "CHANGELOG.md", "docs/installing.md"}, files)
	for _, file := range files {
		require.FileExists(t, filepath.Join("../..", file))
	}
}

func untar(t *testing.T, r *release, name string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(r.out, name))
	require.NoError(t, err)
	zr, err := gzip.NewReader(bytes.NewReader(content))
	require.NoError(t, err)
	got := map[string]string{}
	for from := tar.NewReader(zr); ; {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			return got
		}
		require.NoError(t, err)
		require.True(t, h.ModTime.Equal(r.time))
		content, err := io.ReadAll(from)
		require.NoError(t, err)
		got[h.FileInfo().Mode().String()+" "+h.Name] = string(content)
	}
}

func unzip(t *testing.T, r *release, name string) map[string]string {
	t.Helper()
	from, err := zip.OpenReader(filepath.Join(r.out, name))
	require.NoError(t, err)
	defer from.Close()
	got := map[string]string{}
	for _, f := range from.File {
		require.True(t, f.Modified.Equal(r.time))
		in, err := f.Open()
		require.NoError(t, err)
		content, err := io.ReadAll(in)
		require.NoError(t, err)
		got[f.Mode().String()+" "+f.Name] = string(content)
	}
	return got
}

// The same programs result in the same bytes, wherever they are and whatever the
// umask was. What a release before has left is gone.
func TestReleaseIsReproducible(t *testing.T) {
	t.Parallel()
	a, from := newRelease(t)
	require.NoError(t, a.write(from))
	b, from := newRelease(t)
	require.NoError(t, os.MkdirAll(b.out, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(b.out, "old"), nil, 0o600))
	require.NoError(t, os.Chmod(filepath.Join(from, "linux-amd64/hostler"), 0o777))
	require.NoError(t, os.Chtimes(b.files[0], time.Now(), time.Unix(1, 0)))
	require.NoError(t, b.write(from))
	first, err := os.ReadFile(filepath.Join(a.out, "SHA256SUMS"))
	require.NoError(t, err)
	second, err := os.ReadFile(filepath.Join(b.out, "SHA256SUMS"))
	require.NoError(t, err)
	require.Equal(t, string(first), string(second))
	require.NoFileExists(t, filepath.Join(b.out, "old"))
}

// A target without programs, and no targets at all, are errors.
func TestIncompleteRelease(t *testing.T) {
	t.Parallel()
	r, programs := newRelease(t)
	require.NoError(t, os.Mkdir(filepath.Join(programs, "darwin-arm64"), 0o755))
	require.ErrorContains(t, r.write(programs), "darwin-arm64: has no programs")
	require.ErrorContains(t, r.write(t.TempDir()), "has no directory OS-ARCH")
	r.sbom = "/bin/false"
	require.NoError(t, os.Remove(filepath.Join(programs, "darwin-arm64")))
	require.ErrorContains(t, r.write(programs), "list the modules of")
}
