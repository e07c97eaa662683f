package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// wipePath deletes the content of a directory.
func wipePath(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	e := dirWiper{top: fd, deadline: time.Now().Add(wipeFilesTimeout)}
	return e.wipe(nil, nil)
}

// Everything in a directory is deleted, and nothing that a link in it points
// to.
func TestWipeDir(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(outside+"/kept", nil, 0o600))
	cases := map[string]func(dir string) error{
		"files": func(dir string) error {
			for i := range 5000 {
				if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0); err != nil {
					return err
				}
			}
			return nil
		},
		"directories without permissions": func(dir string) error {
			err := os.MkdirAll(dir+"/a/b/c", 0o700)
			return errors.Join(err, os.Chmod(dir+"/a/b/c", 0), os.Chmod(dir+"/a/b", 0), os.Chmod(dir+"/a", 0o1000))
		},
		"link to elsewhere": func(dir string) error { return os.Symlink(outside, dir+"/link") },
		"odd names": func(dir string) error {
			for _, name := range []string{"\xff\xfe", "\n", " ", "-rf", "..x", strings.Repeat("x", 255), "hostler-"} {
				if err := os.MkdirAll(filepath.Join(dir, name, name), 0o700); err != nil {
					return err
				}
			}
			return nil
		},
		"FIFO, socket and hard link": func(dir string) error {
			return errors.Join(unix.Mkfifo(dir+"/fifo", 0), os.WriteFile(dir+"/a", nil, 0o600), os.Link(dir+"/a", dir+"/b"),
				unix.Mknod(dir+"/socket", unix.S_IFSOCK, 0))
		},
		"levels": func(dir string) error { return makeDeepDirs(dir, 3000) },
		"deep branches": func(dir string) error {
			for i := range 3 {
				at := fmt.Sprintf("%s/%d%s", dir, i, strings.Repeat("/x", maxWipeDepth-2))
				if err := os.MkdirAll(at, 0o700); err != nil {
					return err
				}
				for j := range 3 {
					if err := os.MkdirAll(fmt.Sprintf("%s/%d%s", at, j, strings.Repeat("/y", maxWipeDepth)), 0o700); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
	for name, fill := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, fill(dir))
			require.NoError(t, wipePath(dir))
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left)
			require.FileExists(t, outside+"/kept")
		})
	}
}

// makeDeepDirs creates nested directories, deeper than a path can name.
func makeDeepDirs(dir string, levels int) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	for range levels {
		if err == nil {
			err = unix.Mkdirat(fd, "directory", 0o700)
		}
		if err != nil {
			return err
		}
		var next int
		next, err = unix.Openat(fd, "directory", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		unix.Close(fd)
		fd = next
	}
	return errors.Join(err, unix.Close(fd))
}

// Deleting has a timeout.
func TestWipeDirTimeout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/x", nil, 0o600))
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	e := dirWiper{top: fd}
	require.ErrorIs(t, e.wipe(nil, nil), runtime.ErrWipeUnverified)
}

// A wipe restores the state of the target's directory and of the directories
// above its mounts. It does not touch the mounts.
func TestWipeTargetRestoresDirs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "volume")
	require.NoError(t, os.MkdirAll(path+"/a/b/mounted/inner", 0o755))
	p, err := newWipeTarget(path, []string{"a/b/mounted", "a/b/mounted/inner"})
	require.NoError(t, err)
	before := map[string]dirState{}
	for _, dir := range []string{path, path + "/a", path + "/a/b"} {
		before[dir], err = dirStateAt(dir)
		require.NoError(t, err)
		require.NoError(t, unix.Setxattr(dir, "user.x", []byte("x"), 0))
		require.NoError(t, setACL(dir))
		require.NoError(t, setInodeFlags(dir))
		require.NoError(t, os.WriteFile(dir+"/left", nil, 0o600))
		require.NoError(t, os.Chmod(dir, 0o2700))
	}
	require.NoError(t, p.wipe(time.Now().Add(wipeFilesTimeout)))
	for dir, was := range before {
		is, err := dirStateAt(dir)
		require.NoError(t, err)
		is.atime = was.atime // reading it may count as an access
		require.Equal(t, was, is, dir)
		require.NoFileExists(t, dir+"/left")
	}
	require.DirExists(t, path+"/a/b/mounted/inner")
	require.Len(t, p.ancestors, 2, "directories below a mount belong to the mount")
}

// setInodeFlags sets flags of a directory that its owner may set.
func setInodeFlags(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err != nil {
		return nil // this filesystem has no flags
	}
	const syncAndNoAccessTime = 0x8 | 0x80
	return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags|syncAndNoAccessTime)
}

// A replaced directory, and one that cannot shrink, are detected.
func TestWipeTargetMismatch(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "volume")
	require.NoError(t, os.Mkdir(path, 0o755))
	p, err := newWipeTarget(path, nil)
	require.NoError(t, err)
	grown := p
	grown.dir.size--
	require.ErrorContains(t, grown.wipe(time.Now().Add(wipeFilesTimeout)), "has grown")
	flagged := p
	flagged.dir.flags.project++
	require.ErrorContains(t, flagged.wipe(time.Now().Add(wipeFilesTimeout)), "flags")
	setWriteHint(t, path, writeLifeLong)
	require.ErrorContains(t, p.wipe(time.Now().Add(wipeFilesTimeout)), "flags")
	setWriteHint(t, path, 0)

	require.NoError(t, os.Rename(path, path+".old"))
	require.NoError(t, os.Mkdir(path, 0o755))
	err = p.wipe(time.Now().Add(wipeFilesTimeout))
	require.ErrorIs(t, err, runtime.ErrWipeUnverified)
	require.ErrorContains(t, err, "not the same directory")
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Symlink(path+".old", path))
	require.ErrorIs(t, p.wipe(time.Now().Add(wipeFilesTimeout)), runtime.ErrWipeUnverified, "replaced by a link")
}

// writeLifeLong is RWH_WRITE_LIFE_LONG of <linux/fcntl.h>.
const writeLifeLong = 4

// setWriteHint sets the expected lifetime of the data written to a directory's
// inode.
func setWriteHint(t *testing.T, path string, hint uint64) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	_, _, errno := unix.Syscall(unix.SYS_FCNTL, f.Fd(), unix.F_SET_RW_HINT, uintptr(unsafe.Pointer(&hint)))
	require.Zero(t, errno)
}

// A directory of another user gets the time of the wipe instead of the last
// tenant's, and the wipe leaves no file in it.
func TestTouchSetsTimesOfWipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := time.Unix(1_000_000_000, 0)
	require.NoError(t, os.Chtimes(dir, old, old))
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, touch(fd))
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.True(t, info.ModTime().After(old))
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, names)
}
