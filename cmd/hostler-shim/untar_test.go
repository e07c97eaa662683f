package main

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func newArchive(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		require.NoError(t, w.WriteHeader(&h))
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

// Whatever an archive contains, nothing outside of its directory is created,
// changed or removed.
func FuzzUnpack(f *testing.F) {
	f.Add(newArchive(f, tar.Header{Name: "a/b", Typeflag: tar.TypeReg, Mode: 0o600}))
	f.Add(newArchive(f, tar.Header{Name: "../x", Typeflag: tar.TypeReg}))
	f.Add(newArchive(f, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../outside"},
		tar.Header{Name: "l/x", Typeflag: tar.TypeReg}, tar.Header{Name: "l", Typeflag: tar.TypeDir}))
	f.Add(newArchive(f, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc"},
		tar.Header{Name: "l/", Typeflag: tar.TypeDir}))
	f.Fuzz(func(t *testing.T, archive []byte) {
		base := t.TempDir()
		inside, outside := filepath.Join(base, "inside"), filepath.Join(base, "outside")
		require.NoError(t, os.Mkdir(inside, 0o755))
		require.NoError(t, os.Mkdir(outside, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(outside, "file"), []byte("x"), 0o644))
		dir, err := os.OpenRoot(inside)
		require.NoError(t, err)
		defer dir.Close()
		u := newUnpacker(dir, identity{uid: os.Geteuid(), gid: os.Getegid()})
		before, err := statPath(filepath.Join(outside, "file"))
		require.NoError(t, err)
		dirBefore, err := statPath(outside)
		require.NoError(t, err)
		_ = u.unpack(bytes.NewReader(archive))

		after, err := statPath(filepath.Join(outside, "file"))
		require.NoError(t, err)
		require.Equal(t, before, after)
		dirAfter, err := statPath(outside)
		require.NoError(t, err)
		require.Equal(t, dirBefore, dirAfter)
		names, err := filepath.Glob(filepath.Join(base, "*"))
		require.NoError(t, err)
		require.Len(t, names, 2)
		_ = wipePath(inside) // directories may lack permissions
	})
}
