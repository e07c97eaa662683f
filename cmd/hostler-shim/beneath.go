package main

import (
	"errors"
	"os"
	"path"
	"strings"

	"github.com/hostler/hostler/runtime"
	"golang.org/x/sys/unix"
)

// maxLinks bounds the links that one path leads through, as the kernel does.
const maxLinks = 40

// errOutside is the error for a path that leads out of its directory.
var errOutside = fileErrorf(runtime.FileOutside, "it leads out of the directory")

// openBeneath opens a file below a directory, by a relative path, for path lookups.
// It follows links, and refuses to leave the directory, whatever is exchanged
// concurrently: it opens one element after the other. It is not os.Root, which
// opens elements with O_NOFOLLOW and O_DIRECTORY: gVisor then follows a link. And
// the kernel's openat2 does not exist there.
func openBeneath(root int, name string) (int, error) {
	b := beneath{parts: strings.Split(name, "/")}
	top, err := unix.FcntlInt(uintptr(root), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	b.handles = []int{top}
	for err == nil && len(b.parts) > 0 {
		err = b.step()
	}
	last := len(b.handles) - 1
	for i, fd := range b.handles {
		if i < last || err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		return -1, err
	}
	return b.handles[last], nil
}

// beneath is a path that is being resolved.
type beneath struct {
	handles []int    // from the directory to what was reached
	parts   []string // the elements that remain
	links   int
}

// step resolves the next element.
func (b *beneath) step() error {
	part := b.parts[0]
	b.parts = b.parts[1:]
	at := b.handles[len(b.handles)-1]
	switch part {
	case "", ".":
		return nil
	case "..":
		if len(b.handles) == 1 {
			return errOutside
		}
		unix.Close(at)
		b.handles = b.handles[:len(b.handles)-1]
		return nil
	}
	fd, err := openAt(at, part, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		unix.Close(fd)
		return b.follow(at, part)
	}
	b.handles = append(b.handles, fd)
	if err == nil && len(b.parts) > 0 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = unix.ENOTDIR // also before "..", where opening would not notice
	}
	return err
}

// follow puts the elements of a link's target in place of the link.
func (b *beneath) follow(at int, part string) error {
	if b.links++; b.links > maxLinks {
		return unix.ELOOP
	}
	target := make([]byte, maxPath)
	n, err := unix.Readlinkat(at, part, target)
	switch {
	case errors.Is(err, unix.EINVAL): // it has been replaced by what is no link
		b.parts = append([]string{part}, b.parts...)
		return nil
	case err != nil:
		return err
	case n == 0 || target[0] == '/':
		return errOutside // an absolute path begins above the directory
	}
	b.parts = append(strings.Split(string(target[:n]), "/"), b.parts...)
	return nil
}

// openDirBeneath is openBeneath for a directory.
func openDirBeneath(root int, name string) (int, error) {
	fd, err := openBeneath(root, name)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = unix.ENOTDIR
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// makeDirsBeneath creates a directory below another one, and those above it.
func makeDirsBeneath(root int, name string) error {
	fd, err := openDirBeneath(root, name)
	if err == nil {
		unix.Close(fd)
	}
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	if err := makeDirsBeneath(root, path.Dir(name)); err != nil {
		return err
	}
	above, err := openDirBeneath(root, path.Dir(name))
	if err != nil {
		return err
	}
	defer unix.Close(above)
	// What exists is a link to nothing, or was created concurrently.
	return unix.Mkdirat(above, path.Base(name), 0o755)
}

// handleOf returns a handle of a directory, for path lookups.
func handleOf(dir *os.Root) (int, error) {
	f, err := dir.OpenFile(".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	defer f.Close()
	return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}
