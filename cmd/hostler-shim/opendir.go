package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/hostler/hostler/runtime"
	"golang.org/x/sys/unix"
)

// openDir opens a directory by its path below root, one element after the
// other, and follows no link: a tenant may have replaced any element by a link
// to something that it may not read or write itself.
func openDir(root, dir string) (*os.Root, error) {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", root, err)
	}
	defer func() { unix.Close(fd) }()
	clean := path.Clean("/" + dir)
	for part := range strings.SplitSeq(clean[1:], "/") {
		if part == "" {
			continue // the root itself
		}
		next, err := openAt(fd, part, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return nil, openDirError(fd, part, dir, err)
		}
		unix.Close(fd)
		fd = next
	}
	// The descriptor identifies the directory, whatever its name now refers to.
	return os.OpenRoot("/proc/self/fd/" + strconv.Itoa(fd))
}

// openDirError returns why an element of a path could not be opened.
func openDirError(dir int, part, full string, err error) error {
	var st unix.Stat_t
	if unix.Fstatat(dir, part, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return badArchive("%s: %q is a symbolic link, which is not followed", full, part)
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return fmt.Errorf("%w: %s", runtime.ErrFileNotFound, full)
	}
	return fmt.Errorf("open %s: %w", full, err)
}
