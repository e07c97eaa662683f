package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxRead bounds what is read of a file.
const maxRead = 8 << 20

// readSome reads a file without blocking.
func readSome(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxRead))
}

// files walks everything readable, except for the kernel's filesystems.
func (l *observer) files() {
	_ = filepath.WalkDir("/", func(path string, d os.DirEntry, err error) error {
		if path == "/proc" || path == "/sys" {
			return filepath.SkipDir
		}
		if err != nil && d == nil {
			return nil
		}
		l.file(path)
		return nil
	})
}

// file records all that a file reveals.
func (l *observer) file(path string) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		l.fact("file "+path, "%v", err)
		return
	}
	text := fmt.Sprintf("mode %o owner %d:%d", st.Mode, st.Uid, st.Gid)
	kind := st.Mode & unix.S_IFMT
	// The content of the shim's own directory is not compared, as long as the
	// tenant cannot add anything to it.
	if kind != unix.S_IFDIR || !under(path, shimDir) {
		text += fmt.Sprintf(" links %d", st.Nlink)
	}
	if kind == unix.S_IFREG || kind == unix.S_IFDIR && !under(path, shimDir) {
		text += fmt.Sprintf(" size %d", st.Size)
	}
	switch kind {
	case unix.S_IFLNK:
		target, _ := os.Readlink(path)
		l.scan(path, target)
		text += " to " + target
	case unix.S_IFCHR, unix.S_IFBLK:
		text += fmt.Sprintf(" device %d", st.Rdev)
	case unix.S_IFREG:
		b, err := readSome(path)
		l.scan(path, string(b))
		text += fmt.Sprintf(" content %x %v", sha256.Sum256(b), err)
	}
	l.fact("file "+path, "%s", text)
	if !under(path, shimDir) {
		l.fact("mtime "+path, "%d.%09d", st.Mtim.Sec, st.Mtim.Nsec)
		l.fact("ctime "+path, "%d.%09d", st.Ctim.Sec, st.Ctim.Nsec)
	}
	l.attributes(path)
	if kind == unix.S_IFREG || kind == unix.S_IFDIR {
		l.inode(path, kind)
	}
}

func under(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func (l *observer) attributes(path string) {
	buf := make([]byte, 64<<10)
	n, err := unix.Llistxattr(path, buf)
	if err != nil || n == 0 {
		return
	}
	names := strings.Split(strings.TrimRight(string(buf[:n]), "\x00"), "\x00")
	slices.Sort(names)
	for _, name := range names {
		value := make([]byte, 64<<10)
		n, _ := unix.Lgetxattr(path, name, value)
		l.fact("attribute "+name+" "+path, "%q", value[:max(n, 0)])
	}
}

// inode records what only calls on an open file return.
func (l *observer) inode(path string, kind uint32) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS); err == nil {
		l.fact("flags "+path, "%#x", flags)
	}
	var x fsxattr
	if ioctl(uintptr(fd), fsIocGetXattr, ptrTo(&x)) == nil {
		l.fact("project "+path, "%d", x.project)
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err == unix.EWOULDBLOCK {
		l.seen = append(l.seen, path+" is locked")
	}
	var st unix.Statfs_t
	if kind == unix.S_IFDIR && !under(path, shimDir) && unix.Fstatfs(fd, &st) == nil && st.Type == unix.TMPFS_MAGIC {
		// Some pages belong to the kernel.
		l.fact("space "+path, "%d MiB", (st.Blocks-st.Bfree)*uint64(st.Bsize)>>20)
	}
}

func owner(info os.FileInfo) string {
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d", st.Uid, st.Gid)
}
