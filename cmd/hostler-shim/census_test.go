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

// underRoot makes a tree of files to be compared.
func underRoot(t *testing.T) string {
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
func TestCompare(t *testing.T) {
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
		"an access list": {func(root string) error { return accessList(root + "/app/conf") }, "/app/conf"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := underRoot(t)
			trees := []tree{newTree(root, []string{filepath.Join(root, "volume")})}
			census := takeCensus(trees)
			require.NoError(t, census.compare(trees))
			<-time.After(tick)
			require.NoError(t, c.change(root))
			err := census.compare(trees)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, runtime.ErrNotClean)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// keepTimes does something to a file and sets its times back.
func keepTimes(path string, do func() error) error {
	var st unix.Stat_t
	err := errors.Join(unix.Stat(path, &st), do())
	return errors.Join(err, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{st.Atim, st.Mtim}, 0))
}

func rewrite(path string) error {
	return keepTimes(path, func() error { return os.WriteFile(path, []byte("evil"), 0) })
}

func replace(path string) error {
	return keepTimes(path, func() error {
		return errors.Join(os.WriteFile(path+".new", []byte("evil"), 0o755), os.Rename(path+".new", path))
	})
}

// swap exchanges two files that differ in their content only.
func swap(a, b string) error {
	return keepTimes(filepath.Dir(a), func() error {
		return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	})
}

func accessList(path string) error {
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
func TestCompareDetails(t *testing.T) {
	t.Parallel()
	root := underRoot(t)
	f, err := lookAt(root + "/app/server")
	require.NoError(t, err)
	before, err := details(root+"/app/server", f)
	require.NoError(t, err)
	require.NoError(t, rewrite(root+"/app/server"))
	after, err := details(root+"/app/server", f)
	require.NoError(t, err)
	require.NotEqual(t, before, after, "content")
	require.NoError(t, unix.Setxattr(root+"/app/server", "user.x", []byte("x"), 0))
	attributed, err := details(root+"/app/server", f)
	require.NoError(t, err)
	require.NotEqual(t, after, attributed, "attributes")

	trees := []tree{{root: root + "/app/conf", emptied: true, detailed: true}}
	census := takeCensus(trees)
	require.NoError(t, os.WriteFile(root+"/app/conf/x", nil, 0o600))
	require.ErrorContains(t, census.compare(trees), "/app/conf/x")
	require.NoError(t, os.Remove(root+"/app/conf/x"))
	require.NoError(t, census.compare(trees))
	require.NoError(t, os.Chmod(root+"/app/conf", 0o711))
	require.ErrorIs(t, census.compare(trees), runtime.ErrNotClean)
}

// A file that is missing is missed, also where its directory says nothing.
func TestCompareMissing(t *testing.T) {
	t.Parallel()
	root := underRoot(t)
	both := []tree{{root: root + "/app/server"}, {root: root + "/app/other"}}
	census := takeCensus(both)
	require.ErrorContains(t, census.compare(both[:1]), "missing")
}

// What could not be counted is not clean, and says why.
func TestCompareUncounted(t *testing.T) {
	t.Parallel()
	err := census{why: errCensus}.compare(nil)
	require.ErrorIs(t, err, runtime.ErrNotClean)
	require.ErrorContains(t, err, "read-only")

	root := t.TempDir()
	for i := range 10 {
		require.NoError(t, os.WriteFile(filepath.Join(root, strconv.Itoa(i)), nil, 0o600))
	}
	visit := func(entry) error { return nil }
	trees := []tree{newTree(root, nil)}
	require.NoError(t, (&walker{visit: visit, left: 11, ends: time.Now().Add(time.Hour)}).walk(trees))
	require.ErrorIs(t, (&walker{visit: visit, left: 10, ends: time.Now().Add(time.Hour)}).walk(trees), errCensus)
	require.ErrorIs(t, (&walker{visit: visit, left: 11}).walk(trees), errCensus, "its time is over")
}

// A filesystem that does not note what a process writes through a mapping is
// found out, and one that does is not.
func TestProbe(t *testing.T) {
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
	require.ErrorIs(t, probeIn(dir), errUnnoted)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
