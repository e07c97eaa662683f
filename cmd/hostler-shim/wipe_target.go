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

// wipeTarget is a directory that a wipe empties: a volume or a temporary
// filesystem.
type wipeTarget struct {
	path         string
	dir          dirState            // the directory itself
	ancestors    map[string]dirState // the parents of mounts below it, by path
	keepNames    map[string]bool     // names directly in it that belong to the engine
	nestedMounts []string            // mounts below it, relative to it
}

// wipeTargetPaths returns the paths of the directories that a wipe empties.
func (s *supervisor) wipeTargetPaths() ([]string, error) {
	if s.config.HostProcess {
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
			return nil, fmt.Errorf("stat a mount: %w", err)
		}
		if info.IsDir() && !slices.Contains(all, m.path) {
			all = append(all, m.path)
		}
	}
	return all, nil
}

// wipeTargets returns the directories to empty, with their current state.
func (s *supervisor) wipeTargets() ([]wipeTarget, error) {
	paths, err := s.wipeTargetPaths()
	if err != nil {
		return nil, err
	}
	mounted, err := s.mountPoints(paths)
	if err != nil {
		return nil, err
	}
	var all []wipeTarget
	for _, path := range paths {
		p, err := newWipeTarget(path, nestedPaths(path, mounted))
		if errors.Is(err, unix.ENOENT) {
			continue // a container that is a directory may lack /tmp
		}
		if err != nil {
			return nil, fmt.Errorf("read the state of %s: %w", path, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// newWipeTarget reads the state of a directory to empty and of the directories
// between it and the mounts below it.
func newWipeTarget(path string, mounted []string) (wipeTarget, error) {
	p := wipeTarget{path: path, nestedMounts: mounted, ancestors: make(map[string]dirState)}
	var err error
	if p.dir, err = dirStateAt(path); err != nil {
		return p, err
	}
	for _, dir := range ancestorDirs(mounted) {
		at := filepath.Join(path, dir)
		if p.ancestors[at], err = dirStateAt(at); err != nil {
			return p, err
		}
	}
	p.keepNames, err = namesToKeep(path)
	return p, err
}

// ancestorDirs returns the parent directories of relative paths, except those
// below another one of the paths, which are on that one's filesystem.
func ancestorDirs(paths []string) []string {
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

func dirStateAt(path string) (dirState, error) {
	fd, err := openDirNoAtime(path)
	if err != nil {
		return dirState{}, err
	}
	defer unix.Close(fd)
	return readDirState(fd)
}

// mountPoints returns the paths to skip when a directory above them is emptied.
// A mount there is a target itself, or not writable, or the kernel's. The mount
// point cannot be removed.
func (s *supervisor) mountPoints(targets []string) ([]string, error) {
	if s.config.HostProcess {
		return targets, nil // directories that represent mounts
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

// nestedPaths returns the paths below dir, relative to it.
func nestedPaths(dir string, paths []string) []string {
	var nested []string
	for _, path := range paths {
		rel, err := filepath.Rel(dir, path)
		if err == nil && rel != "." && filepath.IsLocal(rel) {
			nested = append(nested, rel)
		}
	}
	return nested
}

// namesToKeep returns the names that the engine has created in /dev.
func namesToKeep(path string) (map[string]bool, error) {
	keep := make(map[string]bool)
	if path != devDir {
		return keep, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	for _, e := range entries {
		keep[e.Name()] = true
	}
	return keep, nil
}

// wipe removes everything in the target and restores the state of the directory
// itself and of the directories above mounts in it.
func (p wipeTarget) wipe(deadline time.Time) error {
	if err := p.wipeContents(deadline); err != nil {
		return fmt.Errorf("%w: empty %s: %w", runtime.ErrWipeUnverified, p.path, err)
	}
	return nil
}

func (p wipeTarget) wipeContents(deadline time.Time) error {
	// Use only descriptors from here on: a tenant may have replaced a part of
	// the path, for example by a symbolic link, which is not followed.
	fd, err := p.dir.openSame(unix.AT_FDCWD, p.path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := p.dir.restore(fd); err != nil {
		return err
	}
	ancestors, err := p.openAncestors()
	defer closeDirs(ancestors)
	if err != nil {
		return err
	}
	e := dirWiper{top: fd, deadline: deadline}
	if err := e.wipe(p.keepNames, p.nestedMounts); err != nil {
		return err
	}
	for path, fd := range ancestors {
		if err := p.ancestors[path].restoreTimes(fd); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return p.dir.restoreTimes(fd)
}

// openAncestors opens and restores the directories above mounts, from the top
// down: a directory without permissions makes those below it inaccessible.
func (p wipeTarget) openAncestors() (map[string]int, error) {
	opened := make(map[string]int, len(p.ancestors))
	for _, path := range slices.Sorted(maps.Keys(p.ancestors)) {
		fd, err := p.ancestors[path].openSame(unix.AT_FDCWD, path)
		if err != nil {
			return opened, err
		}
		opened[path] = fd
		if err := p.ancestors[path].restore(fd); err != nil {
			return opened, fmt.Errorf("%s: %w", path, err)
		}
	}
	return opened, nil
}

func closeDirs(opened map[string]int) {
	for _, fd := range opened {
		unix.Close(fd)
	}
}
