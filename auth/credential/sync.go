package credential

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	pollInterval = time.Second
	// maxStaleness is for how long a server that cannot read the database accepts
	// what is in memory: others may have revoked it.
	maxStaleness = 2 * time.Second
	// newKeyPace is the least time between two reads that unknown keys cause, and
	// maxNewKeys how many requests wait for them at once.
	newKeyPace = 100 * time.Millisecond
	maxNewKeys = 64

	readTimeout = time.Second
	loadTimeout = 30 * time.Second
	waitTimeout = 1500 * time.Millisecond
)

var errBusy = errors.New("the database does not answer in time")

// isStale reports whether others may have revoked what is in memory longer ago than
// the package promises.
func (s *Service) isStale() bool {
	return s.isShared && s.clock()-time.Duration(s.readAt.Load()) > maxStaleness
}

// clock is the time since the service was made.
func (s *Service) clock() time.Duration { return time.Since(s.start) }

// refresh has what changed before the call in memory when it returns nil. One read
// serves all that wait for it. Those of unknown keys wait for each other and for the
// pace; if too many wait, what is in memory stands.
func (s *Service) refresh(ctx context.Context, isNewKey bool) error {
	asked := int64(s.clock())
	if isNewKey {
		if s.newKeys.Add(1) > maxNewKeys {
			s.newKeys.Add(-1)
			if s.isStale() {
				return errBusy
			}
			return nil
		}
		defer s.newKeys.Add(-1)
	}
	timeout := time.NewTimer(waitTimeout)
	defer timeout.Stop()
	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timeout.C:
		return errBusy
	}
	if s.readAt.Load() > asked { // it began after the call
		return nil
	}
	if s.failedAt > asked {
		return errBusy
	}
	if isNewKey {
		if err := sleepUntil(ctx, s.start.Add(time.Duration(s.triedAt)).Add(newKeyPace)); err != nil {
			return err
		}
	}
	return s.read(context.WithoutCancel(ctx)) // others wait for it too
}

func sleepUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// read brings memory to the state of the database. The caller holds reading.
func (s *Service) read(ctx context.Context) error {
	s.triedAt = int64(s.clock())
	err := s.readChanges(ctx)
	if err != nil {
		s.failedAt = s.triedAt
	} else {
		s.readAt.Store(s.triedAt)
	}
	s.report(databaseSource, err)
	return err
}

func (s *Service) readChanges(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	generation, err := s.o.Store.CredentialGeneration(limited)
	cancel()
	if err != nil {
		return err
	}
	s.mu.RLock()
	known := s.memory.generation
	s.mu.RUnlock()
	if generation == known {
		return nil
	}
	// A database that was restored from a backup, or of a failover, has lost changes:
	// it is older, or has other keys once what has changed is known.
	if generation > known {
		if isWhole, err := s.load(ctx, known, false); err != nil || isWhole {
			return err
		}
	}
	_, err = s.load(ctx, 0, true)
	return err
}

// load reads what has changed in the database since a generation, and reports whether
// memory has as many keys then as the database.
func (s *Service) load(ctx context.Context, after int64, all bool) (isWhole bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	changed, err := s.o.Store.Credentials(ctx, after)
	if err != nil {
		return false, err
	}
	if err := s.apply(changed, all); err != nil {
		return false, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return !s.isShared || len(s.memory.stored) == changed.Count, nil
}

// apply replaces what has changed in the database.
func (s *Service) apply(c Credentials, all bool) error {
	entries := make([]*entry, 0, len(c.Keys))
	for _, k := range c.Keys {
		e, err := newEntry(k)
		if err != nil {
			return fmt.Errorf("key %s: %w", k.Name, err)
		}
		entries = append(entries, e)
	}
	bindings, err := s.newBindings(c.Bindings)
	if err != nil {
		return err
	}
	s.change(func(m *memory) {
		if all {
			m.stored, m.storedHash = map[string]*entry{}, map[hash]*entry{}
		}
		for _, e := range entries {
			m.set(e)
		}
		m.bindings, m.generation = bindings, c.Generation
	})
	return nil
}

// newBindings returns bindings for memory.
func (s *Service) newBindings(list []Binding) ([]binding, error) {
	bindings := make([]binding, 0, len(list))
	for _, b := range list {
		bound, err := newBinding(b, s.proofKey)
		if err != nil {
			return nil, fmt.Errorf("binding %s: %w", b.Name, err)
		}
		bindings = append(bindings, bound)
	}
	return bindings, nil
}

// change changes memory, and ends what is not accepted as it was.
func (s *Service) change(f func(m *memory)) {
	s.mu.Lock()
	f(&s.memory)
	s.memory.hadAny = s.memory.hadAny || s.memory.generation > 0 || len(s.memory.stored) > 0 || len(s.memory.bindings) > 0
	s.memory.isOpen = s.isUnconfigured && !s.memory.hadAny
	s.open.Store(s.memory.isOpen)
	s.mu.Unlock()
	s.checkAll()
}
