package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api/apitest"
)

// One side of a copy names a claim. Whatever else has a colon is a file here.
func TestPlaces(t *testing.T) {
	for arg, want := range map[string]place{
		"-":             {isStream: true},
		"claim:/":       {claim: "claim", path: "/", isDir: true},
		"claim:/a/b":    {claim: "claim", path: "/a/b"},
		"claim:/a/b//":  {claim: "claim", path: "/a/b", isDir: true},
		"claim:/a/.":    {claim: "claim", path: "/a", isDir: true, inside: true},
		"claim:/.":      {claim: "claim", path: "/", isDir: true, inside: true},
		"claim:/.a":     {claim: "claim", path: "/.a"},
		"claim:/a.":     {claim: "claim", path: "/a."},
		"claim:/a:b":    {claim: "claim", path: "/a:b"},
		"claim:/a/../b": {claim: "claim", path: "/a/../b"}, // the server's error
		"./claim:x":     {path: "./claim:x"},
		"dir/a:b":       {path: "dir/a:b"},
		"/claim:x":      {path: "/claim:x"},
		"C:/x":          {path: "C:/x"},
		".":             {path: "."},
		"..":            {path: ".."},
		"dir/":          {path: "dir/", isDir: true},
		"dir/.":         {path: "dir/", isDir: true, inside: true},
	} {
		got, err := parsePlace(arg)
		require.NoError(t, err, arg)
		require.Equal(t, want, got, arg)
	}
	for _, arg := range []string{"claim:x", "claim:", "claim:./x"} {
		_, err := parsePlace(arg)
		require.ErrorContains(t, err, "absolute", arg)
	}
}

// copyFiles runs cp, which has to succeed, in the directory.
func copyFiles(t *testing.T, dir, stdin string, args ...string) string {
	t.Helper()
	t.Chdir(dir)
	code, out, errOut := hostler(t, stdin, append([]string{"cp"}, args...)...)
	require.Equal(t, exitOK, code, "cp %q: %s", args, errOut)
	return out
}

func writeLocalFile(t *testing.T, name, content string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, []byte(content), mode))
	require.NoError(t, os.Chmod(name, mode))
	require.NoError(t, os.Chtimes(name, apitest.Time, apitest.Time))
}

// A file goes where a person expects it, as a whole, with its mode and time.
func TestCopyFile(t *testing.T) {
	b, dir := serveTestBackend(t), t.TempDir()
	writeLocalFile(t, filepath.Join(dir, "a.txt"), "hello", 0o640)
	require.Equal(t, "copied 1 files, 5 B\n", copyFiles(t, dir, "", "a.txt", "claim-alice:/new"))
	require.Equal(t, "hello", string(b.Files["/new"].Content))
	require.Equal(t, os.FileMode(0o640), b.Files["/new"].Mode)
	copyFiles(t, dir, "", "a.txt", "claim-alice:/tmp") // a directory
	require.Equal(t, "hello", string(b.Files["/tmp/a.txt"].Content))
	copyFiles(t, dir, "", "./a.txt", "claim-alice:/tmp/")
	code, _, errOut := hostler(t, "", "cp", filepath.Join(dir, "a.txt"), "claim-alice:/none/")
	require.Equal(t, exitFailure, code)
	require.Contains(t, errOut, "does not exist")
	require.NotContains(t, b.Files, "/none")

	copyFiles(t, dir, "", "claim-alice:/new", "back")
	requireFile(t, filepath.Join(dir, "back"), "hello", 0o640)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	copyFiles(t, dir, "", "claim-alice:/new", "d")
	requireFile(t, filepath.Join(dir, "d", "new"), "hello", 0o640)
	copyFiles(t, dir, "", "claim-alice:/new", ".")
	requireFile(t, filepath.Join(dir, "new"), "hello", 0o640)
	require.Equal(t, "hello", copyFiles(t, dir, "", "claim-alice:/new", "-"))
	copyFiles(t, dir, "from a stream", "-", "claim-alice:/streamed")
	require.Equal(t, "from a stream", string(b.Files["/streamed"].Content))
	require.Equal(t, "{\n  \"files\": 1,\n  \"bytes\": 5\n}\n", copyFiles(t, dir, "", "a.txt", "claim-alice:/new", "-o", "json"))
}

func requireFile(t *testing.T, name, content string, mode os.FileMode) {
	t.Helper()
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, content, string(got))
	info, err := os.Lstat(name)
	require.NoError(t, err)
	require.Equal(t, mode, info.Mode())
	require.True(t, info.ModTime().Equal(apitest.Time), info.ModTime())
}

// A download that breaks leaves what was there, and nothing else.
func TestCopyBreaks(t *testing.T) {
	b, dir := serveTestBackend(t), t.TempDir()
	b.PutFile("/new", strings.Repeat("x", 1<<20))
	writeLocalFile(t, filepath.Join(dir, "f"), "old", 0o600)
	b.Fail("content", io.ErrClosedPipe)
	code, _, _ := hostler(t, "", "cp", "claim-alice:/new", filepath.Join(dir, "f"))
	require.Equal(t, exitFailure, code)
	requireFile(t, filepath.Join(dir, "f"), "old", 0o600)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// A directory goes in and out with its links, modes and times.
func TestCopyDirectory(t *testing.T) {
	b, dir := serveTestBackend(t), t.TempDir()
	writeLocalFile(t, filepath.Join(dir, "src", "sub", "f"), "content", 0o750)
	writeLocalFile(t, filepath.Join(dir, "src", "ro", "g"), "", 0o400)
	require.NoError(t, os.Symlink("../sub/f", filepath.Join(dir, "src", "ro", "link")))
	require.NoError(t, os.Symlink("/nowhere", filepath.Join(dir, "src", "dangling")))
	require.NoError(t, os.Chmod(filepath.Join(dir, "src", "ro"), 0o555))
	require.NoError(t, os.Chtimes(filepath.Join(dir, "src", "ro"), apitest.Time, apitest.Time))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "src", "ro"), 0o755) })

	require.Equal(t, "copied 6 files, 7 B\n", copyFiles(t, dir, "", "src", "claim-alice:/project"))
	require.Equal(t, "../sub/f", b.Files["/project/ro/link"].Target)
	require.Equal(t, os.FileMode(0o555), b.Files["/project/ro"].Mode)
	copyFiles(t, dir, "", "src", "claim-alice:/project") // which is a directory by then
	require.Contains(t, b.Files, "/project/src/sub/f")
	copyFiles(t, dir, "", "src/.", "claim-alice:/project")
	t.Chdir(filepath.Join(dir, "src", "sub"))
	code, _, errOut := hostler(t, "", "cp", "..", "claim-alice:/tmp")
	require.Equal(t, exitOK, code, errOut)
	require.Contains(t, b.Files, "/tmp/src/sub/f")

	copyFiles(t, dir, "", "claim-alice:/tmp/src", "out")
	for _, out := range []string{"out", "out/src", "merged"} {
		if out == "out/src" {
			copyFiles(t, dir, "", "claim-alice:/tmp/src", "out")
		}
		if out == "merged" {
			require.NoError(t, os.Mkdir(filepath.Join(dir, out), 0o755))
			copyFiles(t, dir, "", "claim-alice:/tmp/src/.", "merged")
		}
		requireFile(t, filepath.Join(dir, out, "sub", "f"), "content", 0o750)
		requireFile(t, filepath.Join(dir, out, "ro", "g"), "", 0o400)
		info, err := os.Stat(filepath.Join(dir, out, "ro"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o555), info.Mode().Perm())
		target, err := os.Readlink(filepath.Join(dir, out, "ro", "link"))
		require.NoError(t, err)
		require.Equal(t, "../sub/f", target)
		t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, out, "ro"), 0o755) })
	}
	text := copyFiles(t, dir, "", "claim-alice:/tmp/src", "-")
	copyFiles(t, dir, text, "-", "claim-alice:/restored", "--tar")
	require.Equal(t, "content", string(b.Files["/restored/sub/f"].Content))
	require.Equal(t, "copied 0 files, 0 B\n1 devices, pipes or sockets were skipped\n", copyPipe(t))
}

// copyPipe copies a directory that has only a pipe.
func copyPipe(t *testing.T) string {
	t.Helper()
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "pipe", Typeflag: tar.TypeFifo}))
	require.NoError(t, w.Close())
	code, out, errOut := hostler(t, packed.String(), "cp", "-", "claim-alice:/pipes", "--tar")
	require.Equal(t, exitOK, code, errOut)
	return out + errOut
}

// archiveOf returns an archive with the headers.
func archiveOf(t *testing.T, headers ...tar.Header) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		h.ModTime = apitest.Time
		if h.Typeflag == tar.TypeReg {
			h.Size = 4
		}
		require.NoError(t, w.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg {
			_, err := io.WriteString(w, "evil")
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	return &b
}

// Whatever a tenant puts into an archive, nothing is written outside of the
// destination, and no program gets the rights of another user.
func TestHostileArchives(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // it has other links
	}
	file := func(name string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o4777}
	}
	link := func(name, target string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}
	}
	dir := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o7777} }
	for name, headers := range map[string][]tar.Header{
		"absolute":                {file("/outside/x")},
		"parent":                  {file("../outside/x")},
		"parent within":           {file("a/../../outside/x")},
		"through a link":          {link("a", "../outside"), file("a/x")},
		"through an absolute one": {link("a", "OUTSIDE"), file("a/x")},
		"through a link of links": {link("a", "b"), link("b", "../outside"), file("a/x")},
		"onto a link":             {link("a", "../outside/secret"), file("a"), link("b", "../outside"), dir("b")},
		"the mode through a link": {dir("a"), link("a", "../outside")},
		"the mode of a link":      {dir("d/a"), link("d/a", "../../outside")},
		"a directory by a link":   {link("a", "../outside"), dir("a/new")},
		"a link by a link":        {link("a", "../outside"), link("a/new", "x")},
		"a hard link":             {{Name: "a", Typeflag: tar.TypeLink, Linkname: "../outside/secret"}, file("a")},
		"a device":                {{Name: "a", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}},
		"special bits":            {file("a"), dir("d")},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			outside := filepath.Join(top, "outside")
			writeLocalFile(t, filepath.Join(outside, "secret"), "secret", 0o600)
			require.NoError(t, os.Chmod(outside, 0o710))
			require.NoError(t, os.Mkdir(filepath.Join(top, "in"), 0o755))
			for i := range headers {
				if headers[i].Linkname == "OUTSIDE" {
					headers[i].Linkname = outside
				}
			}
			root, err := os.OpenRoot(filepath.Join(top, "in"))
			require.NoError(t, err)
			defer root.Close()
			c := &copier{}
			_ = c.unpack(root, archiveOf(t, headers...)) // refused or harmless
			entries, err := os.ReadDir(outside)
			require.NoError(t, err)
			require.Len(t, entries, 1)
			requireFile(t, filepath.Join(outside, "secret"), "secret", 0o600)
			info, err := os.Stat(outside)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o710), info.Mode().Perm())
			for _, made := range []string{"a", "d"} {
				if info, err := os.Lstat(filepath.Join(top, "in", made)); err == nil {
					require.Zero(t, info.Mode()&(os.ModeSetuid|os.ModeSetgid|os.ModeSticky|os.ModeDevice))
				}
			}
		})
	}
}

// A link that an earlier archive has left in the destination is not followed: the
// name of the directory that is copied would choose where it leads to.
func TestCopyOntoLink(t *testing.T) {
	b, top := serveTestBackend(t), t.TempDir()
	b.PutFile("/d/x", "evil")
	for _, name := range []string{"in", "outside"} {
		require.NoError(t, os.Mkdir(filepath.Join(top, name), 0o755))
	}
	require.NoError(t, os.Symlink("../outside", filepath.Join(top, "in", "d")))
	code, _, _ := hostler(t, "", "cp", "claim-alice:/d", filepath.Join(top, "in"))
	require.Equal(t, exitFailure, code)
	b.PutFile("/f", "evil")
	require.NoError(t, os.Symlink("../outside/x", filepath.Join(top, "in", "f")))
	copyFiles(t, top, "", "claim-alice:/f", "in")
	requireFile(t, filepath.Join(top, "in", "f"), "evil", 0o644)
	entries, err := os.ReadDir(filepath.Join(top, "outside"))
	require.NoError(t, err)
	require.Empty(t, entries)
}

// An archive that ends early is an error.
func TestIncompleteArchive(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer root.Close()
	archive := archiveOf(t, tar.Header{Name: "a", Typeflag: tar.TypeReg}, tar.Header{Name: "b", Typeflag: tar.TypeReg})
	c := &copier{}
	require.ErrorContains(t, c.unpack(root, io.LimitReader(archive, 1024+100)), "read the archive")
	_, err = root.Stat("b")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Sizes are for people.
func TestBinarySizes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1 << 10: "1.0 KiB", 3 << 29: "1.5 GiB", 5 << 50: "5120.0 TiB"} {
		require.Equal(t, want, binarySize(n))
	}
}

// A file that changes while it is packed does not become another one.
func TestPackedFileShrinks(t *testing.T) {
	dir := t.TempDir()
	writeLocalFile(t, filepath.Join(dir, "f"), "content", 0o600)
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	c := &copier{}
	shrinking := truncating{func() { require.NoError(t, os.Truncate(filepath.Join(dir, "f"), 3)) }}
	require.ErrorContains(t, c.packFile(tar.NewWriter(shrinking), root, "f"), "became shorter")
}

// truncating runs a function when the header is written.
type truncating struct{ do func() }

func (w truncating) Write(p []byte) (int, error) {
	w.do()
	return len(p), nil
}

// An error of a copy names what to write instead.
func TestCopyErrors(t *testing.T) {
	serveTestBackend(t)
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"cp a b", exitUsage, "CLAIM:PATH"},
		{"cp claim-alice:/a claim-bob:/b", exitUsage, "CLAIM:PATH"},
		{"cp claim-alice:a -", exitUsage, "absolute"},
		{"cp claim-alice:/work out --tar", exitUsage, "--tar"},
		{"cp claim-alice:/none -", exitNotFound, "no such file"},
		{"cp claim-carl:/work -", exitFailure, "release_failed"},
		{"cp - claim-alice:/work/", exitFailure, "name the file"},
		{"cp claim-alice:/work/../work -", exitFailure, ".."},
		{"files stat /work", exitUsage, "CLAIM:PATH"},
		{"files delete claim-alice:/work", exitFailure, "--recursive"},
	} {
		code, _, errOut := hostler(t, "", strings.Fields(test.args)...)
		require.Equal(t, test.code, code, "%s: %s", test.args, errOut)
		require.Contains(t, errOut, test.want, test.args)
	}
}
