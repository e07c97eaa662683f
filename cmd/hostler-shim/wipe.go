package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// wipe makes the container as it was at its baseline, or reports what is not. It
// ends the log with the marks that it is given, if any: of stdout and of stderr.
func (s *supervisor) wipe(marks []string) error {
	if s.baseline == nil {
		return fmt.Errorf("%w: it was never sealed", runtime.ErrNotClean)
	}
	if err := s.endAll(); err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrNotClean, err)
	}
	s.runs.forget()
	if err := s.clearFiles(); err != nil {
		if errors.Is(err, runtime.ErrNotClean) {
			return err
		}
		return fmt.Errorf("%w: %w", runtime.ErrNotClean, err)
	}
	for i, mark := range marks[:min(len(marks), 2)] {
		if err := s.outlets.endLog(shim.LogEnd(mark), i+1); err != nil {
			return fmt.Errorf("%w: %w", runtime.ErrNotClean, err)
		}
	}
	return nil
}

// clearFiles empties what is the tenant's and compares the rest.
func (s *supervisor) clearFiles() error {
	if s.baseline.files.why != nil {
		return s.baseline.files.why
	}
	ends := time.Now().Add(emptyTime)
	for _, p := range s.baseline.places {
		if err := p.empty(ends); err != nil {
			return err
		}
	}
	if !s.config.Shared { // else they are the machine's
		if err := removeIPC(); err != nil {
			return err
		}
	}
	now, err := s.readFacts()
	if err != nil {
		return err
	}
	if err := s.baseline.facts.compare(now); err != nil {
		return err
	}
	trees, err := s.trees()
	if err != nil {
		return err
	}
	return s.baseline.files.compare(trees)
}
