package credential

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
)

var anyTenant = activity.Anything

// entry is a key in memory. It does not change but for its last use: a key that is
// revoked, or that a line of the file replaces, is another entry.
type entry struct {
	Record
	hash      hash
	principal *auth.Principal
	isMade    bool         // a key of the file that a server has made
	usedAt    atomic.Int64 // in minutes since 1970
	writtenAt atomic.Int64 // usedAt as it was written last
}

// newEntry returns the entry of a record.
func newEntry(r Record) (*entry, error) {
	h, err := parseHash(r.Hash)
	if err != nil {
		return nil, err
	}
	e := &entry{Record: r, hash: h, principal: &auth.Principal{Actor: "key:" + r.Name, Name: r.Name, Grants: r.Grants}}
	if r.ExpiresAt != nil {
		e.principal.Expires = *r.ExpiresAt
	}
	if r.LastUsedAt != nil {
		e.usedAt.Store(r.LastUsedAt.Unix() / 60)
		e.writtenAt.Store(e.usedAt.Load())
	}
	e.principal.Origin = e
	return e, nil
}

// use records that the key was used. Most uses find the minute recorded.
func (e *entry) use(now time.Time) {
	if minute := now.Unix() / 60; e.usedAt.Load() < minute {
		e.usedAt.Store(minute)
	}
}

// lastUse returns when the key was used last.
func (e *entry) lastUse() *time.Time {
	minute := e.usedAt.Load()
	if minute == 0 {
		return nil
	}
	return new(time.Unix(minute*60, 0).UTC())
}

// check returns nil if the key is accepted.
func (e *entry) check(m *memory, now time.Time) error {
	switch {
	case m.find(e.hash) != e || e.RevokedAt != nil:
		return auth.ErrRevoked
	case hasExpired(e.principal.Expires, now):
		return auth.ErrExpired
	}
	return nil
}

func (e *entry) usesDatabase(*memory) bool { return e.Source == Database }

// endedBefore reports whether the key was revoked or had expired before a time.
func (e *entry) endedBefore(t time.Time) bool {
	return e.RevokedAt != nil && e.RevokedAt.Before(t) || e.ExpiresAt != nil && e.ExpiresAt.Before(t)
}

func hasExpired(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// memory is what a service knows of keys and bindings. The lock of the service
// guards it.
type memory struct {
	generation int64             // of the database, up to which it is complete
	stored     map[string]*entry // those of the database, by name
	storedHash map[hash]*entry
	file       map[hash]*entry // those of the key file
	fileNames  map[string][]*entry
	bindings   []binding // those of the database
	fileBound  []binding // those of the bindings file
	hadAny     bool      // whether the database has ever had a credential
	isOpen     bool      // whether there has never been a credential
}

func newMemory() memory {
	return memory{stored: map[string]*entry{}, storedHash: map[hash]*entry{}}
}

// find returns the key with a hash, or nil.
func (m *memory) find(h hash) *entry {
	if e := m.file[h]; e != nil {
		return e
	}
	return m.storedHash[h]
}

// set adds a key of the database, unless a later state of it is known.
func (m *memory) set(e *entry) {
	old := m.stored[e.Name]
	if old != nil {
		if old.Generation >= e.Generation {
			return
		}
		m.remove(old)
		if old.hash == e.hash { // what was not written
			e.usedAt.Store(max(e.usedAt.Load(), old.usedAt.Load()))
		}
	}
	m.stored[e.Name], m.storedHash[e.hash] = e, e
}

func (m *memory) remove(e *entry) {
	delete(m.stored, e.Name)
	delete(m.storedHash, e.hash)
}

// named returns the keys of a name. A file may have several.
func (m *memory) named(name string) []*entry {
	all := slices.Clip(m.fileNames[name])
	if e := m.stored[name]; e != nil {
		all = append(all, e)
	}
	return all
}

// all calls f with each binding.
func (m *memory) all(f func(b *binding)) {
	for i := range m.fileBound {
		f(&m.fileBound[i])
	}
	for i := range m.bindings {
		f(&m.bindings[i])
	}
}

// hasFileOperator reports whether a followed file has an operator's key or binding.
func (m *memory) hasFileOperator() bool {
	for _, e := range m.file {
		if e.principal.Has(auth.Operator) {
			return true
		}
	}
	return slices.ContainsFunc(m.fileBound, func(b binding) bool { return b.Role == auth.Operator })
}
