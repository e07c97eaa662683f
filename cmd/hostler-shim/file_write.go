package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// uploadPrefix begins the name of a file whose content is not complete. One is
// left behind only if its process was killed.
const uploadPrefix = ".hostler-upload-"

// write replaces a file by what it reads, when that is complete.
func (w *fileWorker) write() error {
	if w.place.isTop() {
		return errNotRegular
	}
	if err := w.place.makeDirs(true); err != nil {
		return err
	}
	dir, base, err := w.place.parent()
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	if unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return errNotRegular // before the content is sent
	}
	part := uploadPrefix + rand.Text()
	fd := -1
	err = w.create(func() error {
		fd, err = openAt(dir, part, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
		return err
	}, func() { _ = unix.Unlinkat(dir, part, 0) })
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	entry, err := w.writeContent(fd)
	if err == nil {
		err = unix.Renameat(dir, part, dir, base)
	}
	if err != nil {
		w.cleanUp()
		return err
	}
	w.dropCleanup()
	entry.Name = []byte(path.Base(w.place.path))
	return w.out.JSON(shim.FileInfo, entry)
}

// writeContent writes all content, and the mode, and describes the file.
func (w *fileWorker) writeContent(fd int) (shim.FileEntry, error) {
	_, err := io.CopyBuffer(fdWriter(fd), onlyReader{w.in}, make([]byte, shim.MaxData))
	if err != nil {
		return shim.FileEntry{}, err
	}
	if err := unix.Fchmod(fd, w.request.Mode&0o777); err != nil {
		return shim.FileEntry{}, err
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	return newFileEntry("", &st), err
}

// fdWriter writes to a file descriptor.
type fdWriter int

func (d fdWriter) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := unix.Write(int(d), p[done:])
		if err != nil && !errors.Is(err, unix.EINTR) {
			return done, err
		}
		done += max(n, 0)
	}
	return done, nil
}

// remove removes a file, or a directory with its content. It follows no link.
func (w *fileWorker) remove() error {
	if w.place.isTop() {
		return fileErrorf(runtime.FileInvalid, "it is the top of what may be removed")
	}
	dir, base, err := w.place.parent()
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return w.removeAt(dir, base, w.request.Recursive)
}

// removeAt removes an entry of a directory.
func (w *fileWorker) removeAt(dir int, base string, recursive bool) error {
	err := unix.Unlinkat(dir, base, 0)
	if err == nil {
		return w.working()
	}
	var st unix.Stat_t
	if statErr := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); statErr != nil {
		return statErr
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return err // some systems have EPERM for a directory, and others EISDIR
	}
	if isMountPoint(dir, base, st.Dev) {
		return fileErrorf(runtime.FileInvalid, fmt.Sprintf("%.200q is a mount point", base))
	}
	err = unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
	if !recursive || !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		return err
	}
	if err := w.emptyDir(dir, base); err != nil {
		return err
	}
	return unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
}

// isMountPoint reports whether something is mounted on a directory. A volume is
// not emptied because a directory above it is removed.
func isMountPoint(dir int, base string, device uint64) bool {
	var above unix.Stat_t
	if unix.Fstat(dir, &above) != nil || above.Dev != device {
		return true
	}
	var st unix.Statx_t
	err := unix.Statx(dir, base, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &st)
	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// emptyDir removes what is in a directory. It reads the directory again until
// there is nothing: removing changes the position.
func (w *fileWorker) emptyDir(above int, base string) error {
	fd, err := openAt(above, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		names, err := firstDirNames(fd)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			if err := w.removeAt(fd, name, true); err != nil && !errors.Is(err, unix.ENOENT) {
				return err
			}
		}
	}
}

// firstDirNames returns names of a directory, some if there are many.
func firstDirNames(fd int) ([]string, error) {
	if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
		return nil, err
	}
	var names []string
	buffer := make([]byte, 32<<10)
	for {
		n, err := unix.ReadDirent(fd, buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return names, err
		}
		if _, _, names = unix.ParseDirent(buffer[:n], -1, names); len(names) >= readdirBatch {
			return names, nil
		}
	}
}
