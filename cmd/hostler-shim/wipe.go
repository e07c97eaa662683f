package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hostler/hostler/runtime"
)

// wipe makes the container as it was at its seal, or says that it is not.
// Paths are what the engine says that has changed by now.
func (s *supervisor) wipe(paths []string) error {
	if s.seal == nil {
		return fmt.Errorf("%w: it was never sealed", runtime.ErrNotClean)
	}
	if err := s.endAll(); err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrNotClean, err)
	}
	s.runs.forget()
	if err := s.clearFiles(paths); err != nil {
		if errors.Is(err, runtime.ErrNotClean) {
			return err
		}
		return fmt.Errorf("%w: %w", runtime.ErrNotClean, err)
	}
	return nil
}

// clearFiles empties what is the tenant's and compares the rest.
func (s *supervisor) clearFiles(paths []string) error {
	for _, p := range s.seal.places {
		if err := p.empty(); err != nil {
			return err
		}
	}
	if !s.config.Shared { // else they are the machine's
		if err := removeIPC(); err != nil {
			return err
		}
	}
	now, err := s.lookAtAll(paths)
	if err != nil {
		return err
	}
	if path, what := difference(s.seal.files, now); what != "" {
		return fmt.Errorf("%w: %s %s", runtime.ErrNotClean, path, what)
	}
	return s.compare(s.seal.root)
}

// difference is the first path, by name, that is not as it was, and what is
// the matter with it. A folder changes with what is made in it, so that is
// told rather than the folder.
func difference(before, now map[string]fileState) (path, what string) {
	changed := ""
	all := maps.Clone(before)
	maps.Copy(all, now)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		was, known := before[path]
		is, there := now[path]
		switch {
		case !known:
			return path, "is new"
		case !there:
			return path, "is no longer as it was made"
		case was != is && changed == "":
			changed = path
		}
	}
	if changed != "" {
		return changed, "has changed"
	}
	return "", ""
}
