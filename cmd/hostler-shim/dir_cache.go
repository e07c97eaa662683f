package main

import (
	"errors"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// maxCachedDirs is how many directories are kept open. An archive is ordered by
// directory, so few are enough. A tree may be deeper than the limit on open
// files.
const maxCachedDirs = 128

// dirCache keeps directories of a tree open. To resolve a file's directory
// again for each operation would cost more than the file itself.
//
// A handle identifies a directory, not a name: if a tenant replaces the
// directory by a link, an operation through the handle still affects the
// directory.
type dirCache struct {
	root *os.Root // the tree
	fds  map[string]int
	// followsNoLink means that a link is no directory.
	followsNoLink bool
}

func newDirCache(root *os.Root) *dirCache {
	return &dirCache{root: root, fds: make(map[string]int)}
}

// get returns a handle for a directory of the tree, by a clean name. The handle
// is valid until the next call, and for path lookups only: nothing can be read
// from it.
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

// open opens a directory relative to its parent's handle. Unless followsNoLink is
// set, it follows links in the tree and none that lead out of it.
func (c *dirCache) open(name string) (int, error) {
	if name != "." {
		parent, err := c.get(path.Dir(name))
		if err != nil {
			return -1, err
		}
		fd, err := openAt(parent, path.Base(name), unix.O_PATH|unix.O_DIRECTORY, 0)
		if c.followsNoLink || !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
			return fd, err
		}
	}
	root, err := handleOf(c.root)
	if err != nil || name == "." {
		return root, err
	}
	defer unix.Close(root)
	return openDirBeneath(root, name)
}

// put makes fd the handle of name. It may close all other handles.
func (c *dirCache) put(name string, fd int) {
	if len(c.fds) >= maxCachedDirs {
		c.closeAll()
	}
	if old, ok := c.fds[name]; ok {
		unix.Close(old)
	}
	c.fds[name] = fd
}

// closeAll closes all handles. They are reopened when needed.
func (c *dirCache) closeAll() {
	for _, fd := range c.fds {
		unix.Close(fd)
	}
	clear(c.fds)
}

// openAt opens a name directly in a directory and follows no link.
func openAt(dir int, name string, flags int, mode uint32) (int, error) {
	if flags&unix.O_DIRECTORY != 0 && flags&unix.O_PATH == 0 && name != "." {
		// gVisor would follow a link: O_NOFOLLOW has no effect with O_DIRECTORY.
		at, err := openAt(dir, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return -1, err
		}
		defer unix.Close(at)
		dir, name = at, "."
	}
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}
