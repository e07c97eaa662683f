package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	hostler "github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/tree"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A crash of the machine can lose the times of a file, and not its content. What was
// seen before says nothing after it.
func TestStampOfEarlierBoot(t *testing.T) {
	t.Parallel()
	dir := diskDir(t)
	makeTree(t, dir, "file")
	fd, err := unix.Open(filepath.Join(dir, "file"), unix.O_RDONLY, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(fd, &st))
	later := time.Now().Add(time.Hour)
	before, now, unknown := newStamper(false), newStamper(false), newStamper(false)
	before.boot, unknown.boot = before.boot+1, 0
	for _, stamp := range []func(*stamper) tree.Stamp{
		func(s *stamper) tree.Stamp { return s.listed(unix.AT_FDCWD, filepath.Join(dir, "file"), &st, later) },
		func(s *stamper) tree.Stamp { return s.opened(fd, &st, later) },
		func(s *stamper) tree.Stamp { return s.written(fd) },
	} {
		require.False(t, stamp(now).IsZero())
		require.Equal(t, stamp(now), stamp(newStamper(true)))
		require.NotEqual(t, stamp(before), stamp(now))
		require.Zero(t, stamp(unknown))
	}
}

// A direct write in progress changes a file that has had its change time for seconds.
// While a process may do that, the file has no stamp.
func TestStampOfOpenFile(t *testing.T) {
	t.Parallel()
	dir := diskDir(t)
	// A process that is forked has all files open until it has executed its program.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	makeTree(t, dir, "file", "theirs")
	settles := func(name string, age time.Duration) bool {
		fd, err := unix.Open(filepath.Join(dir, name), unix.O_RDONLY, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		s := newStamper(true)
		s.writing = age
		return s.settle(fd)
	}
	names := []string{"file"}
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(filepath.Join(dir, "theirs"), 65534, -1))
		names = append(names, "theirs")
	}
	for _, name := range names {
		require.True(t, settles(name, time.Hour), "nothing has it open")
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
		require.NoError(t, err)
		require.False(t, settles(name, time.Hour))
		require.True(t, settles(name, 0), "its change is old enough")
		require.NoError(t, f.Close())
		require.True(t, settles(name, time.Hour))
	}
}

// A name that is longer than others can have is refused: it could not be opened by
// the part that a list holds, and would be left out.
func TestNameListLongNames(t *testing.T) {
	t.Parallel()
	entries := func(name string) []byte {
		b := make([]byte, 19+len(name)+1)
		binary.NativeEndian.PutUint16(b[16:], uint16(len(b))) //nolint:gosec // small
		copy(b[19:], name)
		return b
	}
	var l nameList
	longest := strings.Repeat("ä", tree.MaxName/2) + "x"
	require.NoError(t, l.addAll(entries(longest), "", maxListSize))
	require.Equal(t, longest, string(l.name(l.refs[0])))
	require.ErrorIs(t, l.addAll(entries(longest+"x"), "", maxListSize), hostler.ErrBadArchive)
	require.ErrorIs(t, l.addAll(entries(strings.Repeat("x", 300)), "y", maxListSize), hostler.ErrBadArchive)
}

// A program without privileges changes what is in a directory that its owner may not
// change, which keeps its mode and its time.
func TestWriteInReadOnlyDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	makeTree(t, dir, "ro/gone", "ro/kept", "ro/sub/gone", "top")
	user := os.Geteuid()
	if user == 0 {
		user = 65534
	}
	for _, name := range []string{"ro/sub", "ro", "."} {
		p := filepath.Join(dir, name)
		require.NoError(t, errors.Join(os.Chown(p, user, -1), os.Chmod(p, 0o555), os.Chtimes(p, writtenTime, writtenTime)))
	}
	defer func() { _ = wipePath(dir) }()
	var in bytes.Buffer
	s := tree.NewSender(pipeStream{strings.NewReader(""), &in})
	require.NoError(t, errors.Join(s.Create(fileEntry("new", 0)), s.Remove("ro/gone"), s.Create(fileEntry("ro/new", 3))))
	_, err := s.Write([]byte("new"))
	require.NoError(t, errors.Join(err, s.Create(dirEntry("ro/new-dir")), s.Remove("ro/sub/gone"), s.Remove("top"), s.End()))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	w := newTreeWriter(root, identity{})
	w.mayChown = false
	require.NoError(t, withoutRights(user, func() error { return w.run(&in, io.Discard) }))
	got := scanAll(t, dir, scanOf{reads: readsAll})
	require.Equal(t, []string{"f new", "d ro", "f ro/kept", "f ro/new", "d ro/new-dir", "d ro/sub"}, pathsOf(got.entries))
	require.Equal(t, "new", got.content["ro/new"])
	for _, name := range []string{"ro/sub", "ro", "."} {
		info, err := os.Lstat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o555), info.Mode().Perm(), name)
		require.True(t, info.ModTime().Equal(writtenTime), name)
	}
}

// withoutRights runs fn on a thread that has the rights of a user.
func withoutRights(user int, fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, uintptr(user), 0, 0)
		done <- fn()
	}()
	return <-done
}
