package main

import (
	"errors"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// maxHandles is how many folders are held open at once. An archive goes folder
// by folder, so few are enough; a tree may be deeper than we may have files.
const maxHandles = 128

// handles holds folders of a tree open. To walk to a file's folder anew for all
// that is done to the file costs more than the file.
//
// A handle is a folder and not a name: when a tenant puts a link in the folder's
// place, what is done through the handle is done in the folder all the same.
type handles struct {
	dir  *os.Root // the tree
	open map[string]int
}

func newHandles(dir *os.Root) *handles {
	return &handles{dir: dir, open: make(map[string]int)}
}

// folder is a handle to a folder of the tree, by a clean name. It is good until
// the next call, and for names only: nothing can be read from it.
func (h *handles) folder(name string) (int, error) {
	if fd, ok := h.open[name]; ok {
		return fd, nil
	}
	fd, err := h.openFolder(name)
	if err != nil {
		return -1, err
	}
	h.keep(name, fd)
	return fd, nil
}

// openFolder goes on from the folder above. os.Root follows links in the tree
// and none out of it, with any kernel and whatever a container's engine forbids.
func (h *handles) openFolder(name string) (int, error) {
	if name != "." {
		parent, err := h.folder(path.Dir(name))
		if err != nil {
			return -1, err
		}
		fd, err := openAt(parent, path.Base(name), unix.O_PATH|unix.O_DIRECTORY, 0)
		if !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
			return fd, err
		}
	}
	f, err := h.dir.OpenFile(name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	defer f.Close()
	return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

// keep makes fd the handle of name. It may close all others.
func (h *handles) keep(name string, fd int) {
	if len(h.open) >= maxHandles {
		h.close()
	}
	if old, ok := h.open[name]; ok {
		unix.Close(old)
	}
	h.open[name] = fd
}

// close closes all. They open again when they are needed.
func (h *handles) close() {
	for _, fd := range h.open {
		unix.Close(fd)
	}
	clear(h.open)
}

// openAt opens a name that is directly in a folder, and follows no link.
func openAt(dir int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}
