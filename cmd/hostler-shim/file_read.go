package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// stat describes a file.
func (w *fileWorker) stat() error {
	dir, base, err := w.place.parent()
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	entry, err := statEntry(dir, base)
	if err != nil {
		return err
	}
	entry.Name = []byte(path.Base(w.place.path))
	return w.out.JSON(shim.FileInfo, entry)
}

// statEntry describes a file of a directory.
func statEntry(dir int, base string) (shim.FileEntry, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return shim.FileEntry{}, err
	}
	entry := newFileEntry(base, &st)
	if entry.Type == runtime.TypeLink {
		target := make([]byte, shim.MaxFilePath)
		n, err := unix.Readlinkat(dir, base, target)
		if err != nil {
			return shim.FileEntry{}, err
		}
		entry.Target = target[:n]
	}
	return entry, nil
}

// fileTypes are the types of files. Others are runtime.TypeOther.
var fileTypes = map[uint32]runtime.FileType{
	unix.S_IFREG: runtime.TypeFile, unix.S_IFDIR: runtime.TypeDirectory, unix.S_IFLNK: runtime.TypeLink,
}

func newFileEntry(name string, st *unix.Stat_t) shim.FileEntry {
	kind, ok := fileTypes[st.Mode&unix.S_IFMT]
	if !ok {
		kind = runtime.TypeOther
	}
	seconds, nano := st.Mtim.Unix()
	return shim.FileEntry{
		Name: []byte(name), Type: kind, Size: max(st.Size, 0), Mode: st.Mode & 0o7777,
		Modified: seconds, Nano: nano, UID: int(st.Uid), GID: int(st.Gid),
	}
}

// list describes the entries of a directory. What is removed before it can be
// described is omitted, and others take its place: a list that is shorter than the
// limit has all.
func (w *fileWorker) list() error {
	fd, err := w.place.open(unix.S_IFDIR, unix.O_RDONLY|unix.O_DIRECTORY, unix.ENOTDIR)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), "directory")
	defer dir.Close()
	after, left := string(w.request.After), w.request.Limit
	for left > 0 {
		names, err := w.namesAfter(dir, after, left)
		if err != nil {
			return err
		}
		for _, name := range names {
			entry, err := statEntry(fd, name)
			if errors.Is(err, unix.ENOENT) {
				continue
			}
			if err == nil {
				err = w.out.JSON(shim.FileInfo, entry)
			}
			if err != nil {
				return err
			}
			left--
		}
		if len(names) == 0 {
			return nil
		}
		after = names[len(names)-1]
	}
	return nil
}

// namesAfter returns the first names of a directory after one. It holds at most
// twice as many: a directory may have millions.
func (w *fileWorker) namesAfter(dir *os.File, after string, limit int) ([]string, error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	var names []string
	for {
		batch, err := dir.Readdirnames(readdirBatch)
		for _, name := range batch {
			if name > after {
				names = append(names, name)
			}
			if len(names) >= 2*limit {
				names = firstNames(names, limit)
			}
		}
		if errors.Is(err, io.EOF) || err == nil && len(batch) == 0 {
			return firstNames(names, limit), nil
		}
		if err == nil {
			err = w.working()
		}
		if err != nil {
			return nil, err
		}
	}
}

func firstNames(names []string, limit int) []string {
	slices.Sort(names)
	return names[:min(len(names), limit)]
}

// maxComputedSize bounds the content of a file that the kernel computes when it is
// read. It has no size before that.
const maxComputedSize = 4 << 20

// computedFilesystems are the filesystems with such files.
var computedFilesystems = []int64{
	unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
	unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC,
}

// read prints a file.
func (w *fileWorker) read() error {
	fd, err := w.place.open(unix.S_IFREG, unix.O_RDONLY, errNotRegular)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	entry := newFileEntry(path.Base(w.place.path), &st)
	var content io.ReaderAt = fileAt(fd)
	if entry.Size == 0 || isComputed(fd) {
		text, err := io.ReadAll(io.LimitReader(fdReader(fd), maxComputedSize+1))
		if err != nil {
			return err
		}
		if len(text) > maxComputedSize {
			return fileErrorf(runtime.FileNotRegular, "it has no size, and more content than can be read")
		}
		entry.Size, content = int64(len(text)), bytes.NewReader(text)
	}
	if w.request.Offset < 0 || w.request.Offset > entry.Size {
		return fileErrorf(runtime.FileInvalid, fmt.Sprintf("the range begins after the end: it has %d bytes", entry.Size))
	}
	if err := w.out.JSON(shim.FileInfo, entry); err != nil {
		return err
	}
	return w.printRange(content, entry.Size)
}

// printRange prints the range of the request.
func (w *fileWorker) printRange(content io.ReaderAt, size int64) error {
	length := size - w.request.Offset
	if w.request.Length >= 0 {
		length = min(length, w.request.Length)
	}
	n, err := io.CopyBuffer(onlyWriter{w.out}, onlyReader{io.NewSectionReader(content, w.request.Offset, length)},
		make([]byte, shim.MaxData))
	if err == nil && n < length {
		return fileErrorf(runtime.FileChanged, "it became shorter while it was read")
	}
	return err
}

func isComputed(fd int) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(fd, &fs) == nil && slices.Contains(computedFilesystems, int64(fs.Type)) //nolint:unconvert // it is smaller elsewhere
}

// fileAt reads from a file descriptor.
type fileAt int

func (f fileAt) ReadAt(p []byte, offset int64) (int, error) {
	n, err := unix.Pread(int(f), p, offset)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Pread(int(f), p, offset)
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
}
