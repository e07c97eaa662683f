package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// baseline is the state of a container before its first tenant.
type baseline struct {
	runDir  *tenantRunDir // nil if no tenant can write to it
	targets []wipeTarget  // what a wipe empties
	files   scan          // what a wipe compares: files
	facts   facts         // what a wipe compares: all else
}

// recordBaseline records the baseline. It first kills every process, and it
// restarts the main process afterwards: a process that mapped a file before the
// baseline could change it later without a new timestamp from the kernel. If a
// process maps a file after the baseline, its first write updates the
// timestamp, whether or not the page is on disk by then.
func (s *supervisor) recordBaseline() error {
	if err := s.killAll(); err != nil {
		return err
	}
	b, err := s.readBaseline()
	if err != nil {
		return err
	}
	s.baseline = b
	s.sessions.trustAll()
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
	runDir, err := s.readTenantRunDir()
	if err != nil {
		return nil, err
	}
	b := &baseline{runDir: runDir, targets: targets, files: scanTrees(trees)}
	b.facts, err = s.readFacts()
	b.files.err = errors.Join(b.files.err, probeErr, err)
	return b, nil
}

// devDir is a temporary filesystem that contains the engine's own files, which
// must remain unchanged. Below it is one for terminals, which belongs to the
// kernel.
const (
	devDir = "/dev"
	ptsDir = "/dev/pts"
)

// trees returns all files to compare: those of the root filesystem if it is
// writable, single files that are mounted, such as /etc/hosts, and what an
// engine puts into /dev. If the container is a directory, they are all files in
// it outside of the wipe targets.
func (s *supervisor) trees() ([]scanRoot, error) {
	targets, err := s.wipeTargetPaths()
	if err != nil {
		return nil, err
	}
	if s.config.HostProcess {
		t := newTree(s.config.Root, targets)
		t.detailed = true
		return []scanRoot{t}, nil
	}
	all, err := mounts()
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, m := range all {
		paths = append(paths, m.path)
	}
	var trees []scanRoot
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
				trees = append(trees, scanRoot{root: m.path, detailed: true})
			}
		}
	}
	return trees, nil
}

// isSingleFile reports whether the mount at path is not a directory.
func isSingleFile(path string) (bool, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return false, fmt.Errorf("stat a mount: %w", err)
	}
	return !info.IsDir(), nil
}
