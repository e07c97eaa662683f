package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/runtime"
	"golang.org/x/sys/unix"
)

// place is a folder that a wipe empties: a volume or a temporary filesystem.
type place struct {
	path   string
	device uint64
	inode  uint64
	mode   uint32 // of the folder itself
	uid    int
	gid    int
	keep   map[string]bool // names directly in it that are the engine's
	inner  []string        // what is mounted below it, relative to it
}

// placePaths are the folders that a wipe empties.
func (s *supervisor) placePaths() ([]string, error) {
	if s.config.Shared {
		var all []string
		for _, target := range append([]string{"/tmp"}, s.config.Volumes...) {
			all = append(all, filepath.Join(s.config.Root, target))
		}
		return all, nil
	}
	mounts, err := writableMounts()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, m := range mounts {
		info, err := os.Lstat(m.path)
		if err != nil {
			return nil, fmt.Errorf("look at a mount: %w", err)
		}
		if info.IsDir() && !slices.Contains(all, m.path) {
			all = append(all, m.path)
		}
	}
	return all, nil
}

// places looks at the folders to be emptied as they are now.
func (s *supervisor) places() ([]place, error) {
	paths, err := s.placePaths()
	if err != nil {
		return nil, err
	}
	mounted, err := s.mountPoints(paths)
	if err != nil {
		return nil, err
	}
	var all []place
	for _, path := range paths {
		var st unix.Stat_t
		err := unix.Lstat(path, &st)
		if errors.Is(err, unix.ENOENT) {
			continue // a folder need not have a /tmp
		}
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", path, err)
		}
		p := place{
			path: path, device: st.Dev, inode: st.Ino,
			mode: st.Mode & 0o7777, uid: int(st.Uid), gid: int(st.Gid),
			inner: below(path, mounted),
		}
		if p.keep, err = namesToKeep(path); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// mountPoints are the paths that are passed over when a folder above them is
// emptied. What is mounted there is a place itself, or cannot be written, or is
// the kernel's; the mount point could not be removed.
func (s *supervisor) mountPoints(places []string) ([]string, error) {
	if s.config.Shared {
		return places, nil // folders that stand for mounts
	}
	all, err := mounts()
	if err != nil {
		return nil, err
	}
	paths := make([]string, 0, len(all))
	for _, m := range all {
		paths = append(paths, m.path)
	}
	return paths, nil
}

// below are those of the paths that are below dir, relative to it.
func below(dir string, paths []string) []string {
	var inner []string
	for _, path := range paths {
		rel, err := filepath.Rel(dir, path)
		if err == nil && rel != "." && filepath.IsLocal(rel) {
			inner = append(inner, rel)
		}
	}
	return inner
}

// namesToKeep is what the engine has put into /dev.
func namesToKeep(path string) (map[string]bool, error) {
	keep := make(map[string]bool)
	if path != devDir {
		return keep, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", path, err)
	}
	for _, e := range entries {
		keep[e.Name()] = true
	}
	return keep, nil
}

// empty removes all that is in the place, and gives the folder itself back the
// mode and the owner that it had.
func (p place) empty() error {
	// By descriptor from here on: what a tenant may have put in the way of the
	// path, a symbolic link to elsewhere for example, is not followed.
	fd, err := unix.Open(p.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%w: open %s: %w", runtime.ErrNotClean, p.path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Dev != p.device || st.Ino != p.inode {
		return fmt.Errorf("%w: %s is another folder than before", runtime.ErrNotClean, p.path)
	}
	if os.Geteuid() == 0 {
		if err := unix.Fchown(fd, p.uid, p.gid); err != nil {
			return fmt.Errorf("restore the owner of %s: %w", p.path, err)
		}
	}
	// Also before it is emptied: a tenant may have taken its own rights away.
	// A folder of somebody else's, which we could not change, neither could it.
	if st.Mode&0o7777 != p.mode || os.Geteuid() == 0 {
		if err := unix.Fchmod(fd, p.mode); err != nil {
			return fmt.Errorf("restore the mode of %s: %w", p.path, err)
		}
	}
	if err := dropAttributes(fd); err != nil {
		return fmt.Errorf("restore the attributes of %s: %w", p.path, err)
	}
	if err := emptyDir("/proc/self/fd/"+strconv.Itoa(fd), p.keep, p.inner); err != nil {
		return fmt.Errorf("empty %s: %w", p.path, err)
	}
	return nil
}

// emptyDir removes all below dir but the names to keep and the inner places.
func emptyDir(dir string, keep map[string]bool, inner []string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	f.Close()
	if err != nil {
		return err
	}
	for _, name := range names {
		if keep[name] || slices.Contains(inner, name) {
			continue
		}
		path := filepath.Join(dir, name)
		if deeper := withPrefix(inner, name+"/"); len(deeper) > 0 {
			err = emptyDir(path, nil, deeper)
		} else {
			err = removeAll(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func withPrefix(paths []string, prefix string) []string {
	var found []string
	for _, path := range paths {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			found = append(found, rest)
		}
	}
	return found
}

// removeAll removes a tree, also one whose folders its owner has closed: root
// without that capability, and other users, may not look into them.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700) // RemoveAll tells what this could not do
		}
		return nil
	})
	return os.RemoveAll(path)
}

// dropAttributes removes what an owner may attach to a folder besides files.
func dropAttributes(fd int) error {
	buf := make([]byte, 64<<10) // the kernel's own limit
	n, err := unix.Flistxattr(fd, buf)
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "system.posix_acl") {
			if err := unix.Fremovexattr(fd, name); err != nil {
				return err
			}
		}
	}
	return nil
}
