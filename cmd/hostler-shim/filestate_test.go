package main

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Each field of a file's state is compared by itself: no tenant can set all of
// them.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	changes := map[string]func(f *fileState){
		"mode":                 func(f *fileState) { f.mode ^= 0o100 },
		"uid":                  func(f *fileState) { f.uid++ },
		"gid":                  func(f *fileState) { f.gid++ },
		"links":                func(f *fileState) { f.links++ },
		"size":                 func(f *fileState) { f.size++ },
		"inode":                func(f *fileState) { f.inode++ },
		"filesystem":           func(f *fileState) { f.filesystem++ },
		"device":               func(f *fileState) { f.device++ },
		"flags":                func(f *fileState) { f.flags |= unix.STATX_ATTR_IMMUTABLE },
		"changed, seconds":     func(f *fileState) { f.ctime.Sec++ },
		"changed, nanoseconds": func(f *fileState) { f.ctime.Nsec++ },
		"modified, seconds":    func(f *fileState) { f.mtime.Sec++ },
		"modified, nanosecs":   func(f *fileState) { f.mtime.Nsec++ },
		"born, seconds":        func(f *fileState) { f.btime.Sec++ },
		"born, nanoseconds":    func(f *fileState) { f.btime.Nsec++ },
	}
	require.Equal(t, reflect.TypeFor[fileState]().NumField()+3, len(changes), "three fields have two parts")
	of := func(f fileState, more, dir, name string) fingerprint {
		fp, _ := newFingerprint(nil, f, []byte(more), dir, []byte(name))
		return fp
	}
	same := of(fileState{}, "", "/app", "server")
	require.Equal(t, same, of(fileState{}, "", "/app", "server"))
	for name, change := range changes {
		var f fileState
		change(&f)
		require.NotEqual(t, same, of(f, "", "/app", "server"), name)
	}
	require.NotEqual(t, same, of(fileState{}, "x", "/app", "server"), "the details")
	require.NotEqual(t, of(fileState{}, "y", "/app", "server"), of(fileState{}, "x", "/app", "server"), "the value of the details")
	require.NotEqual(t, same, of(fileState{}, "", "/apq", "server"), "the directory")
	require.NotEqual(t, same, of(fileState{}, "", "/app", "serves"), "the name")
	require.NotEqual(t, of(fileState{}, "", "/app", "server"), of(fileState{}, "", "/app/server", ""), "the boundary of directory and name")
	require.NotEqual(t, of(fileState{}, "a", "/x", "b"), of(fileState{}, "", "a/x", "b"), "the boundary of details and directory")
}

// The state contains everything that statx returns about a file, except what
// reading the file changes.
func TestNewFileState(t *testing.T) {
	t.Parallel()
	none := newFileState(&unix.Statx_t{})
	for name, change := range map[string]func(st *unix.Statx_t){
		"mode":             func(st *unix.Statx_t) { st.Mode = 0o100 },
		"uid":              func(st *unix.Statx_t) { st.Uid = 1 },
		"gid":              func(st *unix.Statx_t) { st.Gid = 1 },
		"links":            func(st *unix.Statx_t) { st.Nlink = 1 },
		"size":             func(st *unix.Statx_t) { st.Size = 1 },
		"inode":            func(st *unix.Statx_t) { st.Ino = 1 },
		"filesystem":       func(st *unix.Statx_t) { st.Dev_major = 1 },
		"filesystem minor": func(st *unix.Statx_t) { st.Dev_minor = 1 },
		"device":           func(st *unix.Statx_t) { st.Rdev_major = 1 },
		"device minor":     func(st *unix.Statx_t) { st.Rdev_minor = 1 },
		"immutable":        func(st *unix.Statx_t) { st.Attributes = unix.STATX_ATTR_IMMUTABLE },
		"append":           func(st *unix.Statx_t) { st.Attributes = unix.STATX_ATTR_APPEND },
		"changed":          func(st *unix.Statx_t) { st.Ctime.Nsec = 1 },
		"modified":         func(st *unix.Statx_t) { st.Mtime.Nsec = 1 },
		"born":             func(st *unix.Statx_t) { st.Btime.Nsec = 1 },
	} {
		var st unix.Statx_t
		change(&st)
		require.NotEqual(t, none, newFileState(&st), name)
	}
	require.Equal(t, none, newFileState(&unix.Statx_t{Atime: unix.StatxTimestamp{Sec: 1}, Attributes: unix.STATX_ATTR_MOUNT_ROOT}))
}

// A directory that is emptied keeps everything except what changes with its
// entries.
func TestFileStateWithoutContent(t *testing.T) {
	t.Parallel()
	time := unix.StatxTimestamp{Sec: 1, Nsec: 2}
	f := fileState{
		mode: 1, uid: 2, gid: 3, links: 4, size: 5, inode: 6, filesystem: 7, device: 8, flags: 9,
		ctime: time, mtime: time, btime: time,
	}
	require.Equal(t, fileState{
		mode: 1, uid: 2, gid: 3, inode: 6, filesystem: 7, device: 8, flags: 9, btime: time,
	}, f.withoutContent())
}
