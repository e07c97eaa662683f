package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// newScanRoot creates a tree of files to compare.
func newScanRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "app/conf"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "volume/x"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "app/server"), []byte("good"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "app/other"), []byte("good"), 0o755))
	require.NoError(t, os.Symlink("server", filepath.Join(root, "app/link")))
	return root
}

// Every change of a file or a directory is detected, even if the modification
// time is restored, and the error names it if it still exists. Mounts below are
// skipped.
func TestScanCompare(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		change func(root string) error
		want   string
	}{
		"nothing":       {func(string) error { return nil }, ""},
		"below a mount": {func(root string) error { return os.WriteFile(root+"/volume/x/y", nil, 0o600) }, ""},
		"new file":      {func(root string) error { return os.WriteFile(root+"/app/new", nil, 0o600) }, "/app/new is new"},
		"new directory": {func(root string) error { return os.Mkdir(root+"/app/new", 0o700) }, "app"},
		"removed file":  {func(root string) error { return os.Remove(root + "/app/other") }, "/app is new or has changed"},
		"same size":     {func(root string) error { return rewrite(root + "/app/server") }, "/app/server"},
		"replaced":      {func(root string) error { return replace(root + "/app/server") }, "/app/server"},
		"swapped":       {func(root string) error { return swap(root+"/app/server", root+"/app/other") }, "/app/"},
		"changed link": {func(root string) error {
			return errors.Join(os.Remove(root+"/app/link"), os.Symlink("other", root+"/app/link"))
		}, "/app/link"},
		"a mode":              {func(root string) error { return os.Chmod(root+"/app/conf", 0o700) }, "/app/conf"},
		"attribute":           {func(root string) error { return unix.Setxattr(root+"/app/conf", "user.x", []byte("x"), 0) }, "/app/conf"},
		"hard link":           {func(root string) error { return os.Link(root+"/app/server", root+"/volume/x/y") }, "/app/server"},
		"access control list": {func(root string) error { return setACL(root + "/app/conf") }, "/app/conf"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := newScanRoot(t)
			trees := []scanRoot{newTree(root, []string{filepath.Join(root, "volume")})}
			recorded := scanTrees(trees)
			require.NoError(t, recorded.compare(trees))
			<-time.After(clockGranularity)
			require.NoError(t, c.change(root))
			err := recorded.compare(trees)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, runtime.ErrWipeUnverified)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// withTimesKept changes a file and restores its times.
func withTimesKept(path string, do func() error) error {
	var st unix.Stat_t
	err := errors.Join(unix.Stat(path, &st), do())
	return errors.Join(err, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{st.Atim, st.Mtim}, 0))
}

func rewrite(path string) error {
	return withTimesKept(path, func() error { return os.WriteFile(path, []byte("evil"), 0) })
}

func replace(path string) error {
	return withTimesKept(path, func() error {
		return errors.Join(os.WriteFile(path+".new", []byte("evil"), 0o755), os.Rename(path+".new", path))
	})
}

// swap exchanges two files that differ only in their content.
func swap(a, b string) error {
	return withTimesKept(filepath.Dir(a), func() error {
		return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	})
}

func setACL(path string) error {
	const list = "\x02\x00\x00\x00\x01\x00\x06\x00\xff\xff\xff\xff\x02\x00\x00\x00\xe9\x03\x00\x00" +
		"\x04\x00\x04\x00\xff\xff\xff\xff\x10\x00\x06\x00\xff\xff\xff\xff\x20\x00\x04\x00\xff\xff\xff\xff"
	err := unix.Setxattr(path, "system.posix_acl_access", []byte(list), 0)
	if errors.Is(err, unix.ENOTSUP) {
		return os.Chmod(path, 0o700)
	}
	return err
}

// A detailed tree also compares content and attributes, because a filesystem
// may not record such changes. The times and the size of an emptied root may
// change, but not its mode.
func TestScanCompareDetails(t *testing.T) {
	t.Parallel()
	root := newScanRoot(t)
	f, err := statPath(root + "/app/server")
	require.NoError(t, err)
	before, err := hashDetails(root+"/app/server", f)
	require.NoError(t, err)
	require.NoError(t, rewrite(root+"/app/server"))
	after, err := hashDetails(root+"/app/server", f)
	require.NoError(t, err)
	require.NotEqual(t, before, after, "content")
	require.NoError(t, unix.Setxattr(root+"/app/server", "user.x", []byte("x"), 0))
	attributed, err := hashDetails(root+"/app/server", f)
	require.NoError(t, err)
	require.NotEqual(t, after, attributed, "attributes")

	trees := []scanRoot{{root: root + "/app/conf", emptied: true, detailed: true}}
	recorded := scanTrees(trees)
	require.NoError(t, os.WriteFile(root+"/app/conf/x", nil, 0o600))
	require.ErrorContains(t, recorded.compare(trees), "/app/conf/x")
	require.NoError(t, os.Remove(root+"/app/conf/x"))
	require.NoError(t, recorded.compare(trees))
	require.NoError(t, os.Chmod(root+"/app/conf", 0o711))
	require.ErrorIs(t, recorded.compare(trees), runtime.ErrWipeUnverified)
}

// A missing file is detected, even if its directory is unchanged.
func TestScanCompareMissing(t *testing.T) {
	t.Parallel()
	root := newScanRoot(t)
	both := []scanRoot{{root: root + "/app/server"}, {root: root + "/app/other"}}
	recorded := scanTrees(both)
	require.ErrorContains(t, recorded.compare(both[:1]), "missing")
}

// A scan beyond the limits returns its error and is not clean.
func TestScanTooLarge(t *testing.T) {
	t.Parallel()
	err := scan{err: errScanTooLarge}.compare(nil)
	require.ErrorIs(t, err, runtime.ErrWipeUnverified)
	require.ErrorContains(t, err, "read-only")

	root := t.TempDir()
	for i := range 10 {
		require.NoError(t, os.WriteFile(filepath.Join(root, strconv.Itoa(i)), nil, 0o600))
	}
	visit := func(entry) error { return nil }
	trees := []scanRoot{newTree(root, nil)}
	require.NoError(t, (&walker{visit: visit, filesLeft: 11, deadline: time.Now().Add(time.Hour)}).walk(trees))
	require.ErrorIs(t, (&walker{visit: visit, filesLeft: 10, deadline: time.Now().Add(time.Hour)}).walk(trees), errScanTooLarge)
	require.ErrorIs(t, (&walker{visit: visit, filesLeft: 11}).walk(trees), errScanTooLarge, "deadline exceeded")
}

// The probe detects a filesystem that does not record writes through a mapping,
// and accepts one that does.
func TestProbeTimestamps(t *testing.T) {
	t.Parallel()
	require.NoError(t, probeIn(t.TempDir()))
	var st unix.Statfs_t
	if unix.Statfs("/dev/shm", &st) != nil || st.Type != unix.TMPFS_MAGIC {
		t.Log("no temporary filesystem available")
		return
	}
	dir, err := os.MkdirTemp("/dev/shm", "hostler-test-")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.ErrorIs(t, probeIn(dir), errUnreliableCtime)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
