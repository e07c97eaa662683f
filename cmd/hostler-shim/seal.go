package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// seal is what the files of a container were before its first tenant.
type seal struct {
	files  map[string]fileState // what must be the same
	places []place              // what is emptied
	root   census               // of a root filesystem that nobody else tells of
}

// fileState is all that tells whether a path is as it was. Nobody can set the
// time of the last change, so nobody can change a file and hide it.
type fileState struct {
	missing  bool
	mode     uint32
	uid, gid uint32
	size     int64
	inode    uint64
	changed  unix.Timespec
	modified unix.Timespec
	device   uint64 // of a device file
	target   string // of a symbolic link
}

func lookAt(path string) (fileState, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return fileState{missing: true}, nil
	}
	if err != nil {
		return fileState{}, fmt.Errorf("look at %s: %w", path, err)
	}
	f := fileState{
		mode: st.Mode, uid: st.Uid, gid: st.Gid, size: st.Size, inode: st.Ino,
		changed: st.Ctim, modified: st.Mtim,
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		f.target, err = os.Readlink(path)
	case unix.S_IFCHR, unix.S_IFBLK:
		// Using a device changes its times, and nothing that lasts.
		f.device = st.Rdev
		f.changed, f.modified = unix.Timespec{}, unix.Timespec{}
	}
	return f, err
}

// sealFiles remembers what there is. Paths are what the engine says that has
// changed so far.
func (s *supervisor) sealFiles(paths []string) error {
	files, err := s.lookAtAll(paths)
	if err != nil {
		return err
	}
	places, err := s.places()
	if err != nil {
		return err
	}
	s.seal = &seal{files: files, places: places, root: s.remember()}
	return nil
}

// lookAtAll looks at the paths that the engine names, and at those that init
// has to find by itself.
func (s *supervisor) lookAtAll(paths []string) (map[string]fileState, error) {
	own, err := s.ownPaths()
	if err != nil {
		return nil, err
	}
	places, err := s.placePaths()
	if err != nil {
		return nil, err
	}
	files := make(map[string]fileState, len(paths)+len(own))
	for _, path := range append(slices.Clone(paths), own...) {
		path = filepath.Clean(path)
		if isOurs(path) || underAny(path, places) && !slices.Contains(own, path) {
			continue
		}
		if files[path], err = lookAt(path); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func underAny(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return under(path, dir) })
}

// ownPaths are what no engine tells of: single files that are mounted, such as
// /etc/hosts, what an engine puts into /dev, and, where the container is a
// folder, all that is in it outside the places.
func (s *supervisor) ownPaths() ([]string, error) {
	if s.config.Shared {
		places, err := s.placePaths()
		if err != nil {
			return nil, err
		}
		return walk(s.config.Root, places)
	}
	mounts, err := writableMounts()
	if err != nil {
		return nil, err
	}
	var own []string
	for _, m := range mounts {
		info, err := os.Lstat(m.path)
		if err != nil {
			return nil, fmt.Errorf("look at a mount: %w", err)
		}
		if info.Mode().IsRegular() {
			own = append(own, m.path)
		}
	}
	dev, err := s.devPaths()
	return append(own, dev...), err
}

// devDir is a temporary filesystem with the engine's own files in it, which
// must stay as they are. It has its own of terminals, which is the kernel's.
const (
	devDir = "/dev"
	ptsDir = "/dev/pts"
)

func (s *supervisor) devPaths() ([]string, error) {
	places, err := s.placePaths()
	if err != nil || !slices.Contains(places, devDir) {
		return nil, err
	}
	places = slices.DeleteFunc(append(places, ptsDir), func(p string) bool { return p == devDir })
	all, err := walk(devDir, places)
	if err != nil {
		return nil, err
	}
	return all[1:], nil // the folder itself changes when it is emptied
}

// walk lists all paths below root, but not what is below the places.
func walk(root string, places []string) ([]string, error) {
	var all []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if slices.Contains(places, path) {
			return fs.SkipDir
		}
		all = append(all, path)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("walk the container's folder: %w", err)
	}
	return all, nil
}
