package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// wipe restores the container to its baseline, or returns an error that names
// what differs. It ends the logs of stdout and of stderr with the given marks,
// if any.
func (s *supervisor) wipe(marks []string) error {
	if s.baseline == nil {
		return fmt.Errorf("%w: it has no baseline", runtime.ErrWipeUnverified)
	}
	if err := s.killAll(); err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrWipeUnverified, err)
	}
	if !s.config.HostProcess { // otherwise the peers are servers
		s.sessions.endUntrusted()
	}
	s.runs.reset()
	s.commands.reset()
	if err := s.wipeAndCompare(); err != nil {
		if errors.Is(err, runtime.ErrWipeUnverified) {
			return err
		}
		return fmt.Errorf("%w: %w", runtime.ErrWipeUnverified, err)
	}
	for i, mark := range marks[:min(len(marks), 2)] {
		if err := s.logPipes.writeEndLine(shim.LogEndLine(mark), i+1); err != nil {
			return fmt.Errorf("%w: %w", runtime.ErrWipeUnverified, err)
		}
	}
	return nil
}

// wipeAndCompare removes the tenant's data and compares the rest.
func (s *supervisor) wipeAndCompare() error {
	if s.baseline.files.err != nil {
		return s.baseline.files.err
	}
	deadline := time.Now().Add(wipeFilesTimeout)
	for _, p := range s.baseline.targets {
		if err := p.wipe(deadline); err != nil {
			return err
		}
	}
	if d := s.baseline.runDir; d != nil {
		if err := d.wipe(s.fence.current, deadline); err != nil {
			return err
		}
	}
	if !s.config.HostProcess { // otherwise the objects are the machine's
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
	if err := s.baseline.files.compare(trees); err != nil {
		return err
	}
	return s.halt.err() // at the end: a signal may have arrived until here
}
