package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hostler/hostler/runtime"
	"golang.org/x/sys/unix"
)

// place is a directory that a wipe empties: a volume or a temporary filesystem.
type place struct {
	path    string
	folder  folder            // the directory itself
	between map[string]folder // those on the way to what is mounted below it, by path
	keep    map[string]bool   // names directly in it that are the engine's
	mounted []string          // what is mounted below it, relative to it
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

// places looks at the directories to be emptied as they are now.
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
		p, err := newPlace(path, below(path, mounted))
		if errors.Is(err, unix.ENOENT) {
			continue // a directory need not have a /tmp
		}
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", path, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// newPlace looks at a directory to be emptied and at those between it and what
// is mounted below it.
func newPlace(path string, mounted []string) (place, error) {
	p := place{path: path, mounted: mounted, between: make(map[string]folder)}
	var err error
	if p.folder, err = folderAt(path); err != nil {
		return p, err
	}
	for _, dir := range onTheWay(mounted) {
		at := filepath.Join(path, dir)
		if p.between[at], err = folderAt(at); err != nil {
			return p, err
		}
	}
	p.keep, err = namesToKeep(path)
	return p, err
}

// onTheWay are the directories above relative paths, but not those that are
// below another of the paths: they are on that one's filesystem.
func onTheWay(paths []string) []string {
	var dirs []string
	for _, path := range paths {
		var above []string
		for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
			above = append(above, dir)
		}
		if slices.ContainsFunc(above, func(dir string) bool { return slices.Contains(paths, dir) }) {
			continue
		}
		dirs = append(dirs, above...)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func folderAt(path string) (folder, error) {
	fd, err := openDirectory(path)
	if err != nil {
		return folder{}, err
	}
	defer unix.Close(fd)
	return lookAtFolder(fd)
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

// empty removes all that is in the place, and gives the directory itself, and
// those on the way to what is mounted in it, back what they had.
func (p place) empty(ends time.Time) error {
	if err := p.clear(ends); err != nil {
		return fmt.Errorf("%w: empty %s: %w", runtime.ErrNotClean, p.path, err)
	}
	return nil
}

func (p place) clear(ends time.Time) error {
	// By descriptor from here on: what a tenant may have put in the way of the
	// path, a symbolic link to elsewhere for example, is not followed.
	fd, err := p.folder.openFolder(unix.AT_FDCWD, p.path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := p.folder.restore(fd); err != nil {
		return err
	}
	between, err := p.openBetween()
	defer closeFolders(between)
	if err != nil {
		return err
	}
	e := emptier{top: fd, ends: ends}
	if err := e.empty(p.keep, p.mounted); err != nil {
		return err
	}
	for path, fd := range between {
		if err := p.between[path].settle(fd); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return p.folder.settle(fd)
}

// openBetween opens and restores the directories on the way to what is mounted,
// from the top down: one that is closed closes those below it.
func (p place) openBetween() (map[string]int, error) {
	opened := make(map[string]int, len(p.between))
	for _, path := range slices.Sorted(maps.Keys(p.between)) {
		fd, err := p.between[path].openFolder(unix.AT_FDCWD, path)
		if err != nil {
			return opened, err
		}
		opened[path] = fd
		if err := p.between[path].restore(fd); err != nil {
			return opened, fmt.Errorf("%s: %w", path, err)
		}
	}
	return opened, nil
}

func closeFolders(opened map[string]int) {
	for _, fd := range opened {
		unix.Close(fd)
	}
}
