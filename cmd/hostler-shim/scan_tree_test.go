package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/tree"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// makeTree creates files with their path as content, directories, whose names end in
// a slash, and links, whose names have their target.
func makeTree(t testing.TB, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		link, target, isLink := strings.Cut(name, " -> ")
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, link)), 0o755))
		switch {
		case isLink:
			require.NoError(t, os.Symlink(target, filepath.Join(dir, link)))
		case strings.HasSuffix(name, "/"):
			require.NoError(t, os.MkdirAll(path, 0o755))
		default:
			require.NoError(t, os.WriteFile(path, []byte(name), 0o640))
		}
	}
}

func pathsOf(entries []tree.Entry) (paths []string) {
	for _, e := range entries {
		paths = append(paths, string(e.Kind)+" "+e.Path)
	}
	return paths
}

// A scan lists files, directories and links in order, without following links, and
// leaves out everything else.
func TestScanTree(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	makeTree(t, outside, "secret")
	makeTree(t, dir, "a/b", "a.b", "a/c/", "a0", "link -> "+outside, "\xff\n")
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	require.NoError(t, os.Chmod(filepath.Join(dir, "a/c"), 0o1777|os.ModeSetgid|os.ModeSticky))
	require.NoError(t, os.Chtimes(filepath.Join(dir, "a/b"), time.Time{}, time.Unix(1_700_000_000, 5)))
	uid, gid := os.Geteuid(), os.Getegid()
	got := scanAll(t, dir, scanOf{reads: readsAll, owner: treeOwner{identity{uid: uid, gid: gid + 1}, true}})
	require.Equal(t, []string{"d a", "f a/b", "d a/c", "f a.b", "f a0", "l link", "f \xff\n"}, pathsOf(got.entries))
	byPath := map[string]tree.Entry{}
	for _, e := range got.entries {
		byPath[e.Path] = e
		require.Equal(t, tree.OwnUser, e.Owner, e.Path)
		require.EqualValues(t, gid, e.Group, e.Path)
	}
	require.EqualValues(t, 0o1777, byPath["a/c"].Mode)
	require.Equal(t, outside, byPath["link"].Target)
	require.True(t, byPath["a/b"].ModTime.Equal(time.Unix(1_700_000_000, 5)))
	require.EqualValues(t, 3, byPath["a/b"].Size)
	require.Equal(t, map[string]string{"a/b": "a/b", "a.b": "a.b", "a0": "a0", "\xff\n": "\xff\n"}, got.content)

	got = scanAll(t, dir, scanOf{owner: treeOwner{identity{uid: uid, gid: gid}, false}})
	require.EqualValues(t, uid, got.entries[0].Owner, "the user is unknown")
	require.Empty(t, scanAll(t, t.TempDir(), scanOf{}).entries)
}

// A list has the first names in order, whatever the order in which they are read, and
// no more than fit.
func TestNameList(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 500 {
		names = append(names, fmt.Sprintf("%0*d", 1+i%200, i*7919%100000))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	shuffled := slices.Clone(names)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	dir := t.TempDir()
	for _, name := range shuffled {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	for _, limit := range []int{300, 5000, 1 << 20} {
		var l nameList
		var got []string
		for {
			fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
			require.NoError(t, err)
			after := ""
			if len(got) > 0 {
				after = got[len(got)-1]
			}
			require.NoError(t, l.load(fd, after, limit, make([]byte, 4096)))
			require.NoError(t, unix.Close(fd))
			require.LessOrEqual(t, l.size(), limit)
			for _, r := range l.refs {
				got = append(got, string(l.name(r)))
			}
			if !l.isCut {
				break
			}
		}
		require.Equal(t, names, got, limit)
	}
}

// The names in memory are bounded, however many a directory and those above it have.
func TestScanManyNames(t *testing.T) {
	t.Parallel()
	const count, width = 30_000, 240 // more names than are held
	require.Greater(t, count*width, maxHeldNames)
	dir := t.TempDir()
	at, err := os.Open(dir)
	require.NoError(t, err)
	defer at.Close()
	require.NoError(t, unix.Mkdirat(int(at.Fd()), "2-dir", 0o700))
	makeTree(t, dir, "2-dir/a", "2-dir/b", "0")
	for i := range count {
		name := fmt.Sprintf("%d-%0*d", 1+i%3, width, i)
		require.NoError(t, unix.Linkat(int(at.Fd()), "0", int(at.Fd()), name, 0), "a link to one file is cheaper than files")
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	w := newTreeWalker(root, treeOwner{}, newStamper(false))
	defer w.dirs.closeAll()
	last, n := "", 0
	for {
		e, more, err := w.next()
		require.NoError(t, err)
		if !more {
			break
		}
		require.Less(t, tree.Compare(last, e.Path), 0)
		last = e.Path
		n++
		held := 0
		for i := range w.levels {
			held += w.levels[i].names.size()
		}
		require.Equal(t, held, w.held)
		require.LessOrEqual(t, held, maxHeldNames)
	}
	require.Equal(t, count+4, n)
	require.Zero(t, w.held)
}

// The names of the directories farthest up make room for those below, and are read
// again.
func TestScanForgetsNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	makeTree(t, dir, "a", "b/a", "b/b/a", "b/b/b", "b/c", "c")
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	w := newTreeWalker(root, treeOwner{}, newStamper(false))
	defer w.dirs.closeAll()
	var paths []string
	for {
		w.held = maxHeldNames // as if other directories held a lot
		for i := range w.levels {
			w.held += w.levels[i].names.size()
		}
		e, more, err := w.next()
		require.NoError(t, err)
		if !more {
			break
		}
		paths = append(paths, e.Path)
		if last := len(w.levels) - 1; w.levels[last].isRead {
			for i := range last {
				require.Zero(t, w.levels[i].names.size(), e.Path)
			}
		}
	}
	require.Equal(t, []string{"a", "b", "b/a", "b/b", "b/b/a", "b/b/b", "b/c", "c"}, paths)
}

// Holes are not read, and data is.
func TestScanSparse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "sparse"))
	require.NoError(t, err)
	defer f.Close()
	const size = 20 << 30
	require.NoError(t, f.Truncate(size))
	large := bytes.Repeat([]byte("x"), 2*tree.MaxData)
	for _, at := range []int64{1 << 30, 10 << 30} {
		_, err := f.WriteAt(large, at)
		require.NoError(t, err)
	}
	got := scanAll(t, dir, scanOf{reads: readsAll})
	require.EqualValues(t, size, got.entries[0].Size)
	require.Equal(t, string(large)+string(large), got.content["sparse"])
	require.EqualValues(t, size-2*len(large), got.holes["sparse"])
}

// A file that changes after it was listed is read as it was opened: one that has
// grown is larger, and one that is none any more is left out.
func TestScanChangedFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	makeTree(t, dir, "dir/file", "grown", "linked", "pipe", "removed", "replaced/file", "target")
	got := scanAll(t, dir, scanOf{reads: readsAll, next: func([]tree.Entry) {
		path := func(name string) string { return filepath.Join(dir, name) }
		require.NoError(t, os.WriteFile(path("grown"), []byte("larger than before"), 0o600))
		for _, name := range []string{"removed", "linked", "pipe"} {
			require.NoError(t, os.Remove(path(name)))
		}
		require.NoError(t, os.Symlink("target", path("linked")))
		require.NoError(t, unix.Mkfifo(path("pipe"), 0o600))
		require.NoError(t, os.Rename(path("dir"), path("elsewhere")))
		require.NoError(t, os.Symlink("elsewhere", path("dir")))
		require.NoError(t, os.Rename(path("replaced"), path("moved")))
	}})
	require.Equal(t, map[string]string{"grown": "larger than before", "target": "target"}, got.content)
	require.EqualValues(t, 18, got.read["grown"].Size)
}

// A file that shrinks while it is read is filled up with zeros.
func TestScanShrinkingFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	const size = 8 * tree.MaxData
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("x"), size), 0o600))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	out := &countingBuffer{onStart: func() { require.NoError(t, os.Truncate(path, 5)) }}
	f := newFileSender(root, treeOwner{}, false, tree.NewScanWriter(strings.NewReader(""), out))
	defer f.dirs.closeAll()
	require.NoError(t, f.send("file"))
	require.NoError(t, f.out.End(), "the content is as large as the entry")
	require.Equal(t, tree.MaxData, bytes.Count(out.Bytes(), []byte("x")), "what was read before")
}

// A file has a stamp when a change in the same step of the clock is impossible.
func TestScanStamps(t *testing.T) {
	t.Parallel()
	dir := diskDir(t)
	makeTree(t, dir, "file")
	for _, live := range []bool{false, true} {
		started := time.Now()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("new"), 0o600))
		first := scanAll(t, dir, scanOf{live: live, reads: readsAll})
		if time.Since(started) < stampAge {
			require.Zero(t, first.entries[0].Stamp, "it has just changed")
			require.Zero(t, first.read["file"].Stamp)
		}
		var second scanned
		testenv.AwaitTrue(t, "the file's stamp", func() bool {
			second = scanAll(t, dir, scanOf{live: live, reads: readsAll})
			return !second.read["file"].Stamp.IsZero()
		})
		age := stampAge
		if live {
			age = liveStampAge
		}
		const clockStep = 10 * time.Millisecond // the file's time may be that much earlier
		require.GreaterOrEqual(t, time.Since(started), age-clockStep)
		third := scanAll(t, dir, scanOf{live: live})
		require.Equal(t, second.read["file"].Stamp, third.entries[0].Stamp, "it is the same until a change")
	}
}

// diskDir returns a directory on a filesystem with stamps.
func diskDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "probe"))
	require.NoError(t, err)
	defer os.Remove(f.Name())
	defer f.Close()
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(f.Fd()), &st))
	if !newStamper(false).isStamped(int(f.Fd()), st.Dev) {
		testenv.Skip(t, "root", "the filesystem of %s has no stamps", dir)
	}
	return dir
}

// A page that is written through memory again after it was read gets another stamp.
func TestScanMapped(t *testing.T) {
	t.Parallel()
	dir := diskDir(t)
	requireMappedStamp(t, dir)
}

func requireMappedStamp(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(path, make([]byte, 8192), 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	memory, err := unix.Mmap(int(f.Fd()), 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(memory)) }()
	memory[0] = 'a' // the page is dirty from now on
	var seen scanned
	testenv.AwaitTrue(t, "the file's stamp", func() bool {
		seen = scanAll(t, dir, scanOf{live: true, reads: readsAll})
		return !seen.read["file"].Stamp.IsZero()
	})
	require.Equal(t, byte('a'), seen.content["file"][0])
	memory[0] = 'b'
	now := scanAll(t, dir, scanOf{live: true})
	require.NotEqual(t, seen.read["file"].Stamp, now.entries[0].Stamp)
}

// Files of filesystems that do not note each change have no stamps, also below an
// overlay.
func TestScanWithoutStamps(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	mount := func(kind, dir, options string) {
		if err := unix.Mount(kind, dir, kind, 0, options); err != nil {
			testenv.Skip(t, "root", "mount: %v", err)
		}
		t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	}
	path := func(name string) string { return filepath.Join(base, name) }
	makeTree(t, base, "memory/", "lower/", "upper/", "work/", "overlay/", "both/")
	mount("tmpfs", path("memory"), "")
	makeTree(t, path("memory"), "upper/", "work/")
	mount("overlay", path("overlay"), fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", path("lower"), path("memory/upper"), path("memory/work")))
	mount("overlay", path("both"), fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", path("lower"), path("upper"), path("work")))
	makeTree(t, path("memory"), "file")
	makeTree(t, path("overlay"), "file")
	old := time.Now().Add(time.Hour) // every change is old enough
	for _, dir := range []string{"memory", "overlay"} {
		fd, err := unix.Open(path(dir+"/file"), unix.O_RDONLY, 0)
		require.NoError(t, err)
		var st unix.Stat_t
		require.NoError(t, unix.Fstat(fd, &st))
		require.Zero(t, newStamper(false).opened(fd, &st, old), dir)
		require.Zero(t, newStamper(false).written(fd), dir)
		require.NoError(t, unix.Close(fd))
	}
	requireMappedStamp(t, path("both"))
}

// A path that no program could name is refused, and a directory of a tenant is not
// left out silently.
func TestScanLongPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	name := strings.Repeat("d", 250)
	for range tree.MaxPath/len(name) + 1 {
		require.NoError(t, unix.Mkdirat(at, name, 0o700))
		next, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(at))
		at = next
	}
	require.NoError(t, unix.Close(at))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	w := newTreeWalker(root, treeOwner{}, newStamper(false))
	defer w.dirs.closeAll()
	for more := true; more && err == nil; {
		_, more, err = w.next()
	}
	require.ErrorIs(t, err, runtime.ErrBadArchive)
	require.ErrorContains(t, err, "longer than 4096 bytes")
}

// A scan ends with its stream, whatever it waits for.
func TestScanEndsWithStream(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 3 * tree.MaxBatch {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	require.ErrorIs(t, scanTree(root, treeOwner{}, false, strings.NewReader(""), new(bytes.Buffer)), tree.ErrMalformed)
}
