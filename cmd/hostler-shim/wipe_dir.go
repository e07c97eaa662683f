package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/runtime"
	"golang.org/x/sys/unix"
)

// wipeFilesTimeout bounds how long one wipe deletes files. A container that
// holds more is destroyed together with its volumes.
const wipeFilesTimeout = 30 * time.Second

// maxWipeDepth is how many directories are kept open. Deeper directories are
// first moved up, so that neither path length nor descriptors run out.
const maxWipeDepth = 64

// errDirMovedUp means that a directory was moved up, to be emptied there.
var errDirMovedUp = errors.New("a directory was moved up")

// dirWiper deletes everything below a directory, using only descriptors. No
// process is left that could change anything concurrently. Its memory use does
// not depend on what it deletes.
type dirWiper struct {
	top      int // the directory to empty
	deadline time.Time
	bufs     [maxWipeDepth + 1][]byte
}

// wipe deletes everything below top except the names to keep, directly in it,
// and the mounted paths, relative to it, with their parent directories.
func (e *dirWiper) wipe(keep map[string]bool, mounted []string) error {
	for {
		err := e.wipeDir(e.top, 0, keep, mounted)
		if !errors.Is(err, errDirMovedUp) {
			return err
		}
	}
}

// wipeDir deletes the entries of an open directory.
func (e *dirWiper) wipeDir(dir, level int, keep map[string]bool, mounted []string) error {
	if e.bufs[level] == nil {
		e.bufs[level] = make([]byte, 8<<10)
	}
	if _, err := unix.Seek(dir, 0, 0); err != nil {
		return err
	}
	for {
		n, err := unix.Getdents(dir, e.bufs[level])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read a directory: %w", err)
		}
		if n <= 0 {
			return nil
		}
		if time.Now().After(e.deadline) {
			return fmt.Errorf("%w: deleting the files takes longer than %s", runtime.ErrWipeUnverified, wipeFilesTimeout)
		}
		for name := range direntNames(e.bufs[level][:n]) {
			name := string(name)
			if keep[name] || slices.Contains(mounted, name) {
				continue
			}
			nested := cutPrefixes(mounted, name+"/")
			if len(nested) > 0 {
				err = e.wipeAncestor(dir, name, level, nested)
			} else {
				err = e.removeEntry(dir, name, level)
			}
			if err != nil {
				return err
			}
		}
	}
}

// wipeAncestor deletes the entries of a directory above a mount.
func (e *dirWiper) wipeAncestor(dir int, name string, level int, mounted []string) error {
	if level == maxWipeDepth {
		return fmt.Errorf("%w: a volume is mounted too deep", runtime.ErrWipeUnverified)
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %q: %w", name, err)
	}
	defer unix.Close(fd)
	return e.wipeDir(fd, level+1, nil, mounted)
}

// removeEntry deletes a name and everything below it.
func (e *dirWiper) removeEntry(dir int, name string, level int) error {
	err := withDirAccess(dir, func() error { return unix.Unlinkat(dir, name, 0) })
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return removeError(name, err)
	}
	for {
		err = withDirAccess(dir, func() error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) })
		if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
			return removeError(name, err)
		}
		if level == maxWipeDepth {
			return e.moveUp(dir, name)
		}
		fd, err := openForWipe(dir, name)
		if err != nil {
			return fmt.Errorf("open %q: %w", name, err)
		}
		err = e.wipeDir(fd, level+1, nil, nil)
		unix.Close(fd)
		if err != nil {
			return err
		}
	}
}

// moveUp moves a directory to the top.
func (e *dirWiper) moveUp(dir int, name string) error {
	up := "hostler-" + rand.Text() // a random name that no tenant can have taken
	err := withDirAccess(dir, func() error { return unix.Renameat(dir, name, e.top, up) })
	if errors.Is(err, unix.EACCES) && allowDirAccess(dir, name) == nil {
		err = unix.Renameat(dir, name, e.top, up)
	}
	if err != nil {
		return fmt.Errorf("move %q up: %w", name, err)
	}
	return errDirMovedUp
}

// removeError returns the error of removing a name. A missing name counts as
// removed.
func removeError(name string, err error) error {
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return fmt.Errorf("remove %q: %w", name, err)
}

// withDirAccess runs fn on a directory. If access is denied, it restores the
// permissions of the directory and retries.
func withDirAccess(dir int, fn func() error) error {
	err := fn()
	if errors.Is(err, unix.EACCES) && unix.Fchmod(dir, 0o700) == nil {
		err = fn()
	}
	return err
}

// openForWipe opens a directory, even if its owner has removed all permissions. It
// follows no link.
func openForWipe(dir int, name string) (int, error) {
	fd, err := openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, unix.EACCES) && allowDirAccess(dir, name) == nil {
		fd, err = openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	}
	return fd, err
}

// allowDirAccess gives the owner of a directory all permissions.
func allowDirAccess(dir int, name string) error {
	fd, err := openAt(dir, name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Chmod(handlePath(fd), 0o700)
}

// cutPrefixes returns the paths with the prefix, without it.
func cutPrefixes(paths []string, prefix string) []string {
	var found []string
	for _, path := range paths {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			found = append(found, rest)
		}
	}
	return found
}
