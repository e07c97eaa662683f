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

// newScanRoot makes a tree of files to be compared.
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

// Whatever is done to a file or a directory is found, and named where there is
// a name, with the time of its modification set back; what is mounted below is
// not looked at.
func TestScanCompare(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		change func(root string) error
		want   string
	}{
		"nothing":            {func(string) error { return nil }, ""},
		"below what is left": {func(root string) error { return os.WriteFile(root+"/volume/x/y", nil, 0o600) }, ""},
		"a new file":         {func(root string) error { return os.WriteFile(root+"/app/new", nil, 0o600) }, "/app/new is new"},
		"a new directory":    {func(root string) error { return os.Mkdir(root+"/app/new", 0o700) }, "app"},
		"a file removed":     {func(root string) error { return os.Remove(root + "/app/other") }, "/app is new or has changed"},
		"the same size":      {func(root string) error { return rewrite(root + "/app/server") }, "/app/server"},
		"replaced":           {func(root string) error { return replace(root + "/app/server") }, "/app/server"},
		"swapped":            {func(root string) error { return swap(root+"/app/server", root+"/app/other") }, "/app/"},
		"another link": {func(root string) error {
			return errors.Join(os.Remove(root+"/app/link"), os.Symlink("other", root+"/app/link"))
		}, "/app/link"},
		"a mode":         {func(root string) error { return os.Chmod(root+"/app/conf", 0o700) }, "/app/conf"},
		"an attribute":   {func(root string) error { return unix.Setxattr(root+"/app/conf", "user.x", []byte("x"), 0) }, "/app/conf"},
		"a hard link":    {func(root string) error { return os.Link(root+"/app/server", root+"/volume/x/y") }, "/app/server"},
		"an access list": {func(root string) error { return setACL(root + "/app/conf") }, "/app/conf"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := newScanRoot(t)
			trees := []tree{newTree(root, []string{filepath.Join(root, "volume")})}
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

// withTimesKept does something to a file and sets its times back.
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

// swap exchanges two files that differ in their content only.
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

// A detailed tree compares content and attributes as well: changes that a
// filesystem does not note. An emptied root's own times and size may change,
// its mode may not.
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

	trees := []tree{{root: root + "/app/conf", emptied: true, detailed: true}}
	recorded := scanTrees(trees)
	require.NoError(t, os.WriteFile(root+"/app/conf/x", nil, 0o600))
	require.ErrorContains(t, recorded.compare(trees), "/app/conf/x")
	require.NoError(t, os.Remove(root+"/app/conf/x"))
	require.NoError(t, recorded.compare(trees))
	require.NoError(t, os.Chmod(root+"/app/conf", 0o711))
	require.ErrorIs(t, recorded.compare(trees), runtime.ErrWipeUnverified)
}

// A file that is missing is missed, also where its directory says nothing.
func TestScanCompareMissing(t *testing.T) {
	t.Parallel()
	root := newScanRoot(t)
	both := []tree{{root: root + "/app/server"}, {root: root + "/app/other"}}
	recorded := scanTrees(both)
	require.ErrorContains(t, recorded.compare(both[:1]), "missing")
}

// What could not be counted is not clean, and says why.
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
	trees := []tree{newTree(root, nil)}
	require.NoError(t, (&walker{visit: visit, filesLeft: 11, deadline: time.Now().Add(time.Hour)}).walk(trees))
	require.ErrorIs(t, (&walker{visit: visit, filesLeft: 10, deadline: time.Now().Add(time.Hour)}).walk(trees), errScanTooLarge)
	require.ErrorIs(t, (&walker{visit: visit, filesLeft: 11}).walk(trees), errScanTooLarge, "its time is over")
}

// A filesystem that does not note what a process writes through a mapping is
// found out, and one that does is not.
func TestProbeTimestamps(t *testing.T) {
	t.Parallel()
	require.NoError(t, probeIn(t.TempDir()))
	var st unix.Statfs_t
	if unix.Statfs("/dev/shm", &st) != nil || st.Type != unix.TMPFS_MAGIC {
		t.Log("there is no temporary filesystem to try")
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
