package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/tree"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var writtenTime = time.Unix(1_700_000_000, 123_456_789)

func fileEntry(path string, size int) tree.Entry {
	return tree.Entry{Path: path, Kind: tree.File, Mode: 0o640, Owner: tree.OwnUser, Group: tree.OwnGroup, Size: int64(size), ModTime: writtenTime}
}

func dirEntry(path string) tree.Entry {
	return tree.Entry{Path: path, Kind: tree.Dir, Mode: 0o750, Owner: tree.OwnUser, Group: tree.OwnGroup, ModTime: writtenTime}
}

func linkEntry(path, target string) tree.Entry {
	return tree.Entry{Path: path, Kind: tree.Link, Owner: tree.OwnUser, Group: tree.OwnGroup, ModTime: writtenTime, Target: target}
}

// writeAll writes entries, whose files contain "new" and then zeros.
func writeEntries(t testing.TB, dir string, entries ...tree.Entry) (*writeTest, error) {
	t.Helper()
	w := newWriteTest(t, dir)
	for _, e := range entries {
		if w.Create(e) != nil {
			break // close has the program's error
		}
		if e.Size > 0 {
			_, _ = w.Write([]byte("new")[:min(e.Size, 3)])
			_ = w.Hole(max(e.Size-3, 0))
		}
	}
	return w, w.close()
}

// What was written is what a scan lists, with the same attributes, and each file's
// stamp is the one that it has afterwards.
func TestWriteTree(t *testing.T) {
	t.Parallel()
	dir := diskDir(t)
	entries := []tree.Entry{
		dirEntry("d"), dirEntry("d/d"), fileEntry("d/d/f", 3), fileEntry("d.f", 0), linkEntry("l", "../x"),
		fileEntry("sparse", 100<<20),
	}
	entries[0].Mode, entries[2].Mode = 0o1500, 0
	w, err := writeEntries(t, dir, entries...)
	require.NoError(t, err)
	require.Len(t, w.stamps, 3)
	var got scanned
	owner := treeOwner{identity{uid: os.Geteuid(), gid: os.Getegid()}, true}
	testenv.AwaitTrue(t, "a stamp of each file", func() bool {
		got = scanAll(t, dir, scanOf{owner: owner})
		return !slices.ContainsFunc(got.entries, func(e tree.Entry) bool { return e.Kind == tree.File && e.Stamp.IsZero() })
	})
	var stamps []tree.Stamp
	for i := range got.entries {
		if got.entries[i].Kind == tree.File {
			stamps = append(stamps, got.entries[i].Stamp)
			got.entries[i].Stamp = tree.Stamp{}
		}
	}
	require.Equal(t, entries, got.entries)
	require.Equal(t, w.stamps, stamps)
	var st unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(dir, "sparse"), &st))
	require.Less(t, st.Blocks*512, int64(1<<20), "holes take no space")
	require.NoError(t, os.Chmod(filepath.Join(dir, "d"), 0o700))
}

// An entry replaces what has its name. Only a directory keeps its content, and what
// has another name elsewhere keeps its own.
func TestWriteReplaces(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	makeTree(t, outside, "file", "dir/kept")
	makeTree(t, dir, "dir/kept", "dir-to-file/a/b", "dir-to-link/a", "file", "file-to-dir", "link-to-dir -> "+outside,
		"link-to-file -> "+filepath.Join(outside, "file"), "linked", "parent -> "+outside, "parent-file")
	require.NoError(t, os.Link(filepath.Join(dir, "linked"), filepath.Join(outside, "linked")))
	_, err := writeEntries(t, dir, dirEntry("dir"), fileEntry("dir-to-file", 3), linkEntry("dir-to-link", "x"), fileEntry("file", 3),
		dirEntry("file-to-dir"), dirEntry("link-to-dir"), fileEntry("link-to-dir/dir", 3), fileEntry("link-to-file", 3),
		fileEntry("linked", 3), fileEntry("missing/a/b", 3), fileEntry("parent/dir/kept", 3), fileEntry("parent-file/x", 3))
	require.NoError(t, err)
	got := scanAll(t, dir, scanOf{reads: readsAll})
	require.Equal(t, []string{
		"d dir", "f dir/kept", "f dir-to-file", "l dir-to-link", "f file", "d file-to-dir", "d link-to-dir", "f link-to-dir/dir",
		"f link-to-file", "f linked", "d missing", "d missing/a", "f missing/a/b", "d parent", "d parent/dir", "f parent/dir/kept",
		"d parent-file", "f parent-file/x",
	}, pathsOf(got.entries))
	for path, content := range got.content {
		if path == "dir/kept" {
			require.Equal(t, path, content)
		} else {
			require.Equal(t, "new", content, path)
		}
	}
	require.Equal(t, map[string]string{"file": "file", "dir/kept": "dir/kept", "linked": "linked"},
		scanAll(t, outside, scanOf{reads: readsAll}).content)
}

// Remove removes a name and what is below, also what is deep and without permissions,
// and nothing elsewhere.
func TestWriteRemoves(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	makeTree(t, outside, "file")
	makeTree(t, dir, "a/link -> "+outside, "a/file", strings.Repeat("b/", 3*maxWipeDepth)+"file", "c", "d -> "+outside, "e/kept")
	require.NoError(t, os.Chmod(filepath.Join(dir, "b/b"), 0))
	w := newWriteTest(t, dir)
	for _, path := range []string{"a", "b", "c", "c/below", "d", "d/file", "e/gone", "f/gone"} {
		require.NoError(t, w.Remove(path))
	}
	require.NoError(t, w.close())
	require.Equal(t, []string{"d e", "f e/kept"}, pathsOf(scanAll(t, dir, scanOf{}).entries))
	require.Equal(t, []string{"f file"}, pathsOf(scanAll(t, outside, scanOf{}).entries))

	w = newWriteTest(t, dir)
	require.NoError(t, errors.Join(w.Remove("e"), w.Create(fileEntry("e/new", 0))))
	require.NoError(t, w.close(), "a handle of what was removed is not used")
	require.Equal(t, []string{"d e", "f e/new"}, pathsOf(scanAll(t, dir, scanOf{}).entries))
}

// Owners are those of the entries if the program may set them. No file gets the user
// of the program itself, or the rights of its owner.
func TestWriteOwners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	named := func(path string, owner, group int64) tree.Entry {
		e := fileEntry(path, 0)
		e.Owner, e.Group = owner, group
		return e
	}
	entries := []tree.Entry{named("a", 1234, 4321), named("b", tree.OwnUser, 4321), named("c", runtime.ReservedUser, runtime.ReservedUser)}
	link, sub := linkEntry("d", "x"), dirEntry("e")
	link.Owner, sub.Group = 1234, 4321
	entries = append(entries, link, sub)
	for i := range entries {
		fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR, 0o600)
		require.NoError(t, err)
		w := newTreeWriter(root, identity{uid: 77, gid: 88})
		w.mayChown = false
		var before, after unix.Stat_t
		require.NoError(t, unix.Fstat(fd, &before))
		require.NoError(t, w.chown(fd, &entries[i]))
		require.NoError(t, unix.Fstat(fd, &after))
		require.Equal(t, before.Uid, after.Uid, "it may not")
		require.NoError(t, unix.Close(fd))
	}
	if os.Geteuid() != 0 {
		testenv.Skip(t, "root", "only root gives files away")
	}
	w := newTreeWriter(root, identity{uid: 77, gid: 88})
	defer w.dirs.closeAll()
	var in bytes.Buffer
	s := tree.NewSender(pipeStream{strings.NewReader(""), &in})
	for _, e := range entries {
		require.NoError(t, s.Create(e))
	}
	require.NoError(t, s.End())
	require.NoError(t, w.run(&in, io.Discard))
	for path, want := range map[string][2]uint32{"a": {1234, 4321}, "b": {77, 4321}, "c": {77, 88}, "d": {1234, 88}, "e": {77, 4321}} {
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(filepath.Join(dir, path), &st))
		require.Equal(t, want, [2]uint32{st.Uid, st.Gid}, path)
	}
}

// A tenant that replaces directories and files all the time changes what is written,
// and reaches nothing elsewhere.
func TestWriteRaces(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	makeTree(t, outside, "f", "sub/f")
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		path := func(name string) string { return filepath.Join(dir, name) }
		for i := 0; !stop.Load(); i++ {
			_ = os.Symlink(outside, path("link"))
			_ = os.Rename(path("d"), path(fmt.Sprintf("moved%d", i%3)))
			_ = os.Rename(path("link"), path("d"))
			_ = os.Symlink(outside, path("d/sub"))
			_ = os.Remove(path("d"))
			_ = os.Rename(path(fmt.Sprintf("moved%d", i%3)), path("d"))
			_ = os.Remove(path("d/f"))
			_ = os.Link(filepath.Join(outside, "f"), path("d/f"))
		}
	}()
	failed := 0
	for range 300 {
		w := newWriteTest(t, dir)
		_ = errors.Join(w.Create(dirEntry("d")), w.Create(fileEntry("d/f", 0)), w.Create(fileEntry("d/sub/f", 0)),
			w.Remove("d/sub/sub"), w.Create(linkEntry("d/z", "x")))
		if w.close() != nil {
			failed++
		}
		w = newWriteTest(t, dir)
		_ = w.Remove("d")
		if w.close() != nil {
			failed++
		}
	}
	stop.Store(true)
	<-done
	require.Less(t, failed, 600)
	require.Equal(t, map[string]string{"f": "f", "sub/f": "sub/f"}, scanAll(t, outside, scanOf{reads: readsAll}).content)
}

// What a server sends that is no tree is an error of the tree, and what was sent is
// not complete without its end.
func TestWriteBadTrees(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var whole bytes.Buffer
	w := tree.NewSender(pipeStream{strings.NewReader(""), &whole})
	_, err := whole.Write(nil)
	require.NoError(t, err)
	require.NoError(t, w.Create(fileEntry("f", 3)))
	_, err = w.Write([]byte("new"))
	require.NoError(t, errors.Join(err, w.End()))
	for n := range whole.Len() {
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		sent := bytes.NewReader(slices.Clone(whole.Bytes()[:n]))
		require.ErrorIs(t, newTreeWriter(root, identity{}).run(sent, io.Discard), runtime.ErrBadArchive, n)
		require.NoError(t, root.Close())
	}
	large := fileEntry("g", 0)
	large.Size = 1<<63 - 1
	wt, err := writeEntries(t, dir, large)
	require.ErrorIs(t, err, runtime.ErrBadArchive)
	require.Empty(t, wt.stamps)
}

// While a file is written no process without privileges can open it.
func TestWriteHidesFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newWriteTest(t, dir)
	require.NoError(t, w.Create(fileEntry("f", 1<<20)))
	_, err := w.Write(bytes.Repeat([]byte("x"), 1<<19))
	require.NoError(t, err)
	testenv.AwaitTrue(t, "the file without permissions", func() bool {
		info, err := os.Lstat(filepath.Join(dir, "f"))
		return err == nil && info.Mode().Perm() == 0
	})
	require.NoError(t, w.Hole(1<<19))
	require.NoError(t, w.close())
	info, err := os.Lstat(filepath.Join(dir, "f"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode())
	require.True(t, info.ModTime().Equal(writtenTime))
}

// Whatever a server sends, nothing outside of the directory is created, changed or
// removed.
func FuzzWriteTree(f *testing.F) {
	var b bytes.Buffer
	w := tree.NewSender(pipeStream{strings.NewReader(""), &b})
	_ = errors.Join(w.Create(dirEntry("a")), w.Create(fileEntry("a/b", 0)), w.Remove("a/c"), w.Create(linkEntry("l", "../outside")),
		w.Create(fileEntry("m/n", 5)), w.Hole(5), w.End())
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, sent []byte) {
		base := t.TempDir()
		inside, outside := filepath.Join(base, "inside"), filepath.Join(base, "outside")
		makeTree(t, base, "inside/link -> ../outside", "outside/file")
		before, err := statPath(filepath.Join(outside, "file"))
		require.NoError(t, err)
		dirBefore, err := statPath(outside)
		require.NoError(t, err)
		dir, err := os.OpenRoot(inside)
		require.NoError(t, err)
		defer dir.Close()
		_ = newTreeWriter(dir, identity{uid: os.Geteuid(), gid: os.Getegid()}).run(bytes.NewReader(sent), io.Discard)
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
