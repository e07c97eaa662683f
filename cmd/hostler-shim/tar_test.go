package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// No link in the path of a directory is followed, whatever its target and its
// position in the path.
func TestOpenDirFollowsNoLink(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	for _, dir := range []string{"data/state", "secret/state"} {
		require.NoError(t, os.MkdirAll(filepath.Join(base, dir), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(base, "data/state/mine"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(base, "data/file"), nil, 0o600))
	require.NoError(t, os.Symlink("../secret", filepath.Join(base, "data/out")))
	require.NoError(t, os.Symlink("state", filepath.Join(base, "data/in")))
	for root, prefix := range map[string]string{base: "", "/": base} {
		for _, dir := range []string{"/data/state", "data/state/", "/data/./x/../state"} {
			opened, err := openDir(root, prefix+"/"+dir)
			require.NoError(t, err, dir)
			_, err = opened.Lstat("mine")
			require.NoError(t, err, dir)
			require.NoError(t, opened.Close())
		}
		for _, dir := range []string{"/data/out", "/data/out/state", "/data/in"} {
			_, err := openDir(root, prefix+dir)
			require.ErrorIs(t, err, runtime.ErrBadArchive, dir)
			require.ErrorContains(t, err, "symbolic link", dir)
		}
		for _, dir := range []string{"/none", "/data/none/deeper", "/data/file", "/data/file/deeper"} {
			_, err := openDir(root, prefix+dir)
			require.ErrorIs(t, err, runtime.ErrFileNotFound, dir)
		}
	}
	whole, err := openDir(base, "/../..")
	require.NoError(t, err)
	_, err = whole.Lstat("data")
	require.NoError(t, err, "the root has no parent")
}

// countingBuffer stores an archive and calls onStart at the first write.
type countingBuffer struct {
	bytes.Buffer
	onStart func()
}

func (s *countingBuffer) Write(b []byte) (int, error) {
	if s.onStart != nil {
		s.onStart()
		s.onStart = nil
	}
	return s.Buffer.Write(b)
}

// A file that changes its size while it is packed keeps the initial size: it is
// truncated if it grows and padded with zeros if it shrinks.
func TestPackFileThatChangesSize(t *testing.T) {
	t.Parallel()
	const size = 4 * maxSmallFile
	for name, to := range map[string]int64{"shrinks": maxSmallFile + 3, "truncated": 0, "grows": 2 * size} {
		dir := t.TempDir()
		file := filepath.Join(dir, "file")
		content := bytes.Repeat([]byte("x"), size)
		require.NoError(t, os.WriteFile(file, content, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "next"), []byte("whole"), 0o600))
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		out := &countingBuffer{onStart: func() { require.NoError(t, os.Truncate(file, to)) }}
		require.NoError(t, pack(root, out), name)
		r := tar.NewReader(&out.Buffer)
		h, err := r.Next()
		require.NoError(t, err, name)
		require.EqualValues(t, size, h.Size, name)
		got, err := io.ReadAll(r)
		require.NoError(t, err, name)
		kept := strings.TrimRight(string(got), "\x00")
		require.True(t, kept == string(content[:len(kept)]), "%s: the remaining content is unchanged", name)
		h, err = r.Next()
		require.NoError(t, err, name)
		require.Equal(t, "next", h.Name, name)
		require.NoError(t, root.Close())
	}
}

// Pipes and sockets are omitted, a path that no program could name is refused,
// and names may contain any bytes.
func TestPackUnusualEntries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "dir"), 0o600), "in place of a directory")
	odd := "a\nb\xff\x1b[2J"
	require.NoError(t, os.WriteFile(filepath.Join(dir, odd), []byte("x"), 0o600))
	h, err := tar.NewReader(bytes.NewReader(packDir(t, dir))).Next()
	require.NoError(t, err)
	require.Equal(t, odd, h.Name)

	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	name := strings.Repeat("d", 250)
	for range maxPath/len(name) + 1 {
		require.NoError(t, unix.Mkdirat(at, name, 0o700))
		next, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		require.NoError(t, errors.Join(err, unix.Close(at)))
		at = next
	}
	require.NoError(t, unix.Close(at))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	err = pack(root, io.Discard)
	require.ErrorIs(t, err, runtime.ErrBadArchive)
	require.ErrorContains(t, err, "longer than 4096 bytes")
	err = unpackInto(t, t.TempDir(), newArchiveReader(t, tar.Header{Name: strings.Repeat(name+"/", 20), Typeflag: tar.TypeDir}))
	require.ErrorIs(t, err, runtime.ErrBadArchive)
}

func newArchiveReader(t *testing.T, headers ...tar.Header) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		require.NoError(t, w.WriteHeader(&h))
	}
	require.NoError(t, w.Close())
	return &b
}

// The names of a directory count until it is packed.
func TestPackNameLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a/b/c", "a/d"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	p := packer{dirs: newDirCache(root), tar: tar.NewWriter(io.Discard), buffer: make([]byte, maxSmallFile)}
	defer p.dirs.closeAll()
	require.NoError(t, p.packDir("."))
	require.Zero(t, p.nameBytes)
	p.nameBytes = maxNameBytes - 40 // room for two names at a time
	require.ErrorContains(t, p.packDir("."), "more names")
	p.nameBytes = maxNameBytes - 100
	require.NoError(t, p.packDir("."))
}

// A leased file of another process delays the archive, but not indefinitely.
func TestPackLeasedFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	leased, err := os.OpenFile(filepath.Join(dir, "file"), os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	defer leased.Close()
	_, err = unix.FcntlInt(leased.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	require.NoError(t, err)
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	p := packer{dirs: newDirCache(root), tar: tar.NewWriter(io.Discard), buffer: make([]byte, maxSmallFile), leaseWaited: leaseTimeout - 2*leasePollInterval}
	defer p.dirs.closeAll()
	err = p.packDir(".")
	require.ErrorIs(t, err, runtime.ErrBadArchive)
	require.ErrorContains(t, err, "leased")
	_, err = unix.FcntlInt(leased.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	require.NoError(t, err)
	require.NoError(t, p.packDir("."))
}
