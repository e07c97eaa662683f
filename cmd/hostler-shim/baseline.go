package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// baseline is what a container was before its first tenant.
type baseline struct {
	targets []wipeTarget // what is emptied
	files   scan         // what must be the same
	facts   facts        // and what is no file
}

// recordBaseline takes the baseline. It ends every process before, and starts the
// main one anew: a process that mapped a file before the baseline could go on
// changing it without the kernel noting when. What maps a file afterwards is
// noted with its first write, whether or not the page is on the disk by then.
func (s *supervisor) recordBaseline([]string) error {
	if err := s.killAll(); err != nil {
		return err
	}
	b, err := s.readBaseline()
	if err != nil {
		return err
	}
	s.baseline = b
	return s.startAfterKill()
}

func (s *supervisor) readBaseline() (*baseline, error) {
	probeErr := s.probeTimestamps()
	targets, err := s.wipeTargets()
	if err != nil {
		return nil, err
	}
	trees, err := s.trees()
	if err != nil {
		return nil, err
	}
	b := &baseline{targets: targets, files: scanTrees(trees)}
	b.facts, err = s.readFacts()
	b.files.err = errors.Join(b.files.err, probeErr, err)
	return b, nil
}

// devDir is a temporary filesystem with the engine's own files in it, which
// must stay as they are. It has its own of terminals, which is the kernel's.
const (
	devDir = "/dev"
	ptsDir = "/dev/pts"
)

// trees are all files that are compared: those of the root filesystem if it can
// be written, single files that are mounted, such as /etc/hosts, and what an
// engine puts into /dev. Where the container is a directory, all in it outside
// the places.
func (s *supervisor) trees() ([]tree, error) {
	targets, err := s.wipeTargetPaths()
	if err != nil {
		return nil, err
	}
	if s.config.HostProcess {
		t := newTree(s.config.Root, targets)
		t.detailed = true
		return []tree{t}, nil
	}
	all, err := mounts()
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, m := range all {
		paths = append(paths, m.path)
	}
	var trees []tree
	for _, m := range all {
		switch {
		case m.path == "/" && m.writable:
			trees = append(trees, newTree("/", paths))
		case m.path == devDir && m.writable, m.path == ptsDir:
			t := newTree(m.path, paths)
			t.emptied, t.detailed = true, true
			trees = append(trees, t)
		case m.writable && m.path != "/" && !isExcludedMount(m.path) && !slices.Contains(targets, m.path):
			single, err := isSingleFile(m.path)
			if err != nil {
				return nil, err
			}
			if single {
				trees = append(trees, tree{root: m.path, detailed: true})
			}
		}
	}
	return trees, nil
}

// isSingleFile reports whether what is mounted there is no directory.
func isSingleFile(path string) (bool, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return false, fmt.Errorf("look at a mount: %w", err)
	}
	return !info.IsDir(), nil
}
