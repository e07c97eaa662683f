package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// newUnpackDirs returns a directory to unpack into, and one next to it that
// must remain unchanged.
func newUnpackDirs(t testing.TB) (inside, outside string) {
	t.Helper()
	base := t.TempDir()
	inside, outside = filepath.Join(base, "inside"), filepath.Join(base, "outside")
	require.NoError(t, os.Mkdir(inside, 0o755))
	require.NoError(t, os.Mkdir(outside, 0o755))
	return inside, outside
}

func unpackInto(t testing.TB, dir string, from io.Reader) error {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	return newUnpacker(root, identity{uid: os.Geteuid(), gid: os.Getegid()}).unpack(from)
}

func packDir(t testing.TB, dir string) []byte {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	var b bytes.Buffer
	require.NoError(t, pack(root, &b))
	return b.Bytes()
}

// A link is followed as long as it stays inside. Its handle is dropped when an
// entry replaces it.
func TestUnpackThroughLinks(t *testing.T) {
	link := func(name, target string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}
	}
	file := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644} }
	dir := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755} }
	cases := []struct {
		name    string
		entries []tar.Header
		made    string // empty if the archive is refused
	}{
		{"inside", []tar.Header{dir("d"), link("l", "d"), file("l/f")}, "d/f"},
		{"inside, through the top", []tar.Header{dir("a/b"), dir("d"), link("a/b/l", "../../d"), file("a/b/l/f")}, "d/f"},
		{"outside", []tar.Header{link("l", "../outside"), file("l/f")}, ""},
		{"absolute", []tar.Header{link("l", "/"), file("l/f")}, ""},
		{"loop", []tar.Header{link("l", "l"), file("l/f")}, ""},
		{"replaced by a link to outside", []tar.Header{dir("d"), link("l", "d"), file("l/e"), link("l", "../outside"), file("l/f")}, ""},
		{"through a replaced link", []tar.Header{dir("d/s"), link("l", "d"), link("k", "l/s"), file("k/e"), link("l", "../outside"), file("k/f")}, ""},
		{"replaced by a directory", []tar.Header{dir("d"), link("l", "d"), file("l/e"), dir("l"), file("l/f")}, "l/f"},
		{"through a file", []tar.Header{file("l"), file("l/f")}, ""},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			inside, outside := newUnpackDirs(t)
			err := unpackInto(t, inside, bytes.NewReader(newArchive(t, k.entries...)))
			if k.made == "" {
				require.ErrorIs(t, err, runtime.ErrBadArchive)
			} else {
				require.NoError(t, err)
				info, err := os.Lstat(filepath.Join(inside, k.made))
				require.NoError(t, err)
				require.True(t, info.Mode().IsRegular())
			}
			left, err := os.ReadDir(outside)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// A file with another name elsewhere is replaced, not written to.
func TestUnpackReplacesHardLink(t *testing.T) {
	inside, outside := newUnpackDirs(t)
	other := filepath.Join(outside, "file")
	require.NoError(t, os.WriteFile(other, []byte("old"), 0o600))
	require.NoError(t, os.Link(other, filepath.Join(inside, "file")))
	require.NoError(t, unpackInto(t, inside, bytes.NewReader(newArchive(t,
		tar.Header{Name: "file", Typeflag: tar.TypeReg, Mode: 0o644}))))
	text, err := os.ReadFile(other)
	require.NoError(t, err)
	require.Equal(t, "old", string(text))
	info, err := os.Stat(other)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
}

// More directories than may be open, nested and side by side, are packed and
// unpacked completely, with their modes and times.
func TestUnpackManyDirs(t *testing.T) {
	deep := strings.Repeat("d/", 2*maxCachedDirs)
	at := time.Unix(1700000000, 123456789)
	var entries []tar.Header
	for i := range 2 * maxCachedDirs {
		entries = append(entries, tar.Header{
			Name: deep[:2*i+1], Typeflag: tar.TypeDir, Mode: 0o1500, ModTime: at, Format: tar.FormatPAX,
		}, tar.Header{
			Name: deep[:2*i+1] + "/f", Typeflag: tar.TypeReg, Mode: 0o4640, ModTime: at, Format: tar.FormatPAX,
		}, tar.Header{
			Name: "wide/" + strings.Repeat("x", i%3+1) + "/" + deep[:2*i+1] + "/g", Typeflag: tar.TypeReg, Mode: 0o600, Format: tar.FormatPAX,
		})
	}
	inside, outside := newUnpackDirs(t)
	// t.TempDir cannot remove directories without permissions.
	t.Cleanup(func() { require.NoError(t, wipePath(inside)) })
	require.NoError(t, unpackInto(t, inside, bytes.NewReader(newArchive(t, entries...))))
	first := packDir(t, inside)
	t.Cleanup(func() { require.NoError(t, wipePath(outside)) })
	require.NoError(t, unpackInto(t, outside, bytes.NewReader(first)))
	want, got := readHeaders(t, first), readHeaders(t, packDir(t, outside))
	require.Len(t, want, len(got))
	for name, h := range want {
		require.Equal(t, h, got[name], name)
	}
	last := got[deep[:len(deep)-1]+"/"]
	require.Equal(t, int64(0o1500), last.Mode)
	require.True(t, at.Equal(last.ModTime), "%s", last.ModTime)
	require.Equal(t, int64(0o640), got[deep+"f"].Mode, "an archive cannot set setuid")
}

// readHeaders returns those fields of an archive's headers that an unpacker can
// restore.
func readHeaders(t *testing.T, archive []byte) map[string]tar.Header {
	t.Helper()
	all := make(map[string]tar.Header)
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
		all[h.Name] = tar.Header{Typeflag: h.Typeflag, Linkname: h.Linkname, Size: h.Size, Mode: h.Mode, ModTime: h.ModTime}
	}
}

// If a process replaces a directory by a link while files are created in it, no
// file is created elsewhere.
func TestUnpackLinkRace(t *testing.T) {
	inside, outside := newUnpackDirs(t)
	dir, link := filepath.Join(inside, "d"), filepath.Join(inside, "link")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.Symlink("../outside", link))
	stop, swapped := make(chan struct{}), make(chan error)
	go func() { // ends with stop
		var err error
		for err == nil {
			select {
			case <-stop:
				swapped <- err
				return
			default:
				err = unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
			}
		}
		<-stop
		swapped <- err
	}()
	var entries []tar.Header
	for i := range 200 {
		name := "d/" + strings.Repeat("f", i%50+1)
		entries = append(entries,
			tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644},
			tar.Header{Name: name + "s/below", Typeflag: tar.TypeReg, Mode: 0o644},
			tar.Header{Name: name + "l", Typeflag: tar.TypeSymlink, Linkname: "x"})
	}
	archive := newArchive(t, entries...)
	for range 50 {
		_ = unpackInto(t, inside, bytes.NewReader(archive)) // any result is allowed
	}
	close(stop)
	require.NoError(t, <-swapped)
	left, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, left)
}
