package main

import (
	"errors"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// maxCachedDirs is how many folders are held open at once. An archive goes folder
// by folder, so few are enough; a tree may be deeper than we may have files.
const maxCachedDirs = 128

// dirCache holds folders of a tree open. To walk to a file's folder anew for all
// that is done to the file costs more than the file.
//
// A handle is a folder and not a name: when a tenant puts a link in the folder's
// place, what is done through the handle is done in the folder all the same.
type dirCache struct {
	root *os.Root // the tree
	fds  map[string]int
}

func newDirCache(root *os.Root) *dirCache {
	return &dirCache{root: root, fds: make(map[string]int)}
}

// get is a handle to a folder of the tree, by a clean name. It is good until
// the next call, and for names only: nothing can be read from it.
func (c *dirCache) get(name string) (int, error) {
	if fd, ok := c.fds[name]; ok {
		return fd, nil
	}
	fd, err := c.open(name)
	if err != nil {
		return -1, err
	}
	c.put(name, fd)
	return fd, nil
}

// open goes on from the folder above. os.Root follows links in the tree
// and none out of it, with any kernel and whatever a container's engine forbids.
func (c *dirCache) open(name string) (int, error) {
	if name != "." {
		parent, err := c.get(path.Dir(name))
		if err != nil {
			return -1, err
		}
		fd, err := openAt(parent, path.Base(name), unix.O_PATH|unix.O_DIRECTORY, 0)
		if !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
			return fd, err
		}
	}
	f, err := c.root.OpenFile(name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	defer f.Close()
	return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

// put makes fd the handle of name. It may close all others.
func (c *dirCache) put(name string, fd int) {
	if len(c.fds) >= maxCachedDirs {
		c.closeAll()
	}
	if old, ok := c.fds[name]; ok {
		unix.Close(old)
	}
	c.fds[name] = fd
}

// closeAll closes all. They open again when they are needed.
func (c *dirCache) closeAll() {
	for _, fd := range c.fds {
		unix.Close(fd)
	}
	clear(c.fds)
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
