// Package membershiptest has a database in memory for tests of package
// membership, and the suite that every membership.Store passes.
package membershiptest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hostler/hostler/membership"
)

// Database is a database in memory that several servers share. Its clock is the
// test's, shifted.
type Database struct {
	mu       sync.Mutex
	shift    time.Duration
	replicas map[string]membership.Replica
	renewed  map[string]time.Time // the last renewals, by the test's clock
	lastID   int
	holder   string
	term     int64
	expires  time.Time // zero: the leadership is free
}

// NewDatabase returns an empty database.
func NewDatabase() *Database {
	return &Database{replicas: map[string]membership.Replica{}, renewed: map[string]time.Time{}}
}

// ShiftClock moves the clock.
func (d *Database) ShiftClock(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shift += by
}

// Open returns a connection of one server.
func (d *Database) Open() *Session { return &Session{db: d} }

// HasFenced reports whether another server has fenced the server.
func (d *Database) HasFenced(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	r, ok := d.replicas[id]
	return !ok || r.Epoch != 1
}

// LoseLeadership removes the leader from the database, as a failover to a standby
// that misses the last commits does.
func (d *Database) LoseLeadership() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.holder, d.expires = "", time.Time{}
}

// Term returns the leader and its term.
func (d *Database) Term() (holder string, term int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.holder, d.term
}

// SinceRenewal returns the time since the server's last renewal, by the test's
// clock.
func (d *Database) SinceRenewal(id string) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Since(d.renewed[id])
}

// IDs returns the servers that have a row.
func (d *Database) IDs() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ids []string
	for id := range d.replicas {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Session is a connection of one server. Its fields are set before it is used.
type Session struct {
	// Begin is called before a call of a method, and Answer after its
	// transaction. They may block, and their errors are the method's.
	Begin, Answer func(ctx context.Context, method string) error
	// Fenced is called when this server fences another one, with the record from
	// before.
	Fenced func(r membership.Replica)
	// Unfinished is whether this server leaves work when it deregisters.
	Unfinished func() bool

	db *Database
	id string
}

// ID returns the server's id.
func (s *Session) ID() string { return s.id }

var errUnregistered = errors.New("this server has not registered with the database")

// call runs f as a transaction of this server.
func (s *Session) call(ctx context.Context, method string, f func(now time.Time) error) error {
	if s.Begin != nil {
		if err := s.Begin(ctx, method); err != nil {
			return err
		}
	}
	if err := s.transact(method, f); err != nil {
		return err
	}
	if s.Answer != nil {
		return s.Answer(ctx, method)
	}
	return nil
}

func (s *Session) transact(method string, f func(now time.Time) error) error {
	d := s.db
	d.mu.Lock()
	defer d.mu.Unlock()
	if method != "Register" && s.id == "" {
		return errUnregistered
	}
	if self, ok := d.replicas[s.id]; s.id != "" && method != "Expired" && (!ok || self.Epoch != 1) {
		return fmt.Errorf("%s: %w", strings.ToLower(method), membership.ErrFenced)
	}
	return f(time.Now().Add(d.shift))
}

// Register implements membership.Store.
func (s *Session) Register(ctx context.Context, host string) (r membership.Replica, err error) {
	err = s.call(ctx, "Register", func(now time.Time) error {
		s.db.lastID++
		s.id = fmt.Sprintf("%s-%02d", host, s.db.lastID)
		r = membership.Replica{ID: s.id, Host: host, Epoch: 1, StartedAt: now, ExpiresAt: now.Add(membership.LeaseTime)}
		s.db.replicas[s.id], s.db.renewed[s.id] = r, time.Now()
		return nil
	})
	return r, err
}

// Renew implements membership.Store.
func (s *Session) Renew(ctx context.Context, leads bool) (at time.Time, err error) {
	err = s.call(ctx, "Renew", func(now time.Time) error {
		d := s.db
		has := d.holder == s.id && !d.expires.IsZero()
		if leads && !has {
			return membership.ErrReplaced
		}
		self := d.replicas[s.id]
		self.ExpiresAt = now.Add(membership.LeaseTime)
		d.replicas[s.id], d.renewed[s.id] = self, time.Now()
		if has {
			d.expires = self.ExpiresAt
		}
		at = now
		return nil
	})
	return at, err
}

// Deregister implements membership.Store.
func (s *Session) Deregister(ctx context.Context) error {
	err := s.call(ctx, "Deregister", func(time.Time) error {
		s.db.resign(s.id)
		if s.Unfinished != nil && s.Unfinished() {
			s.db.leave(s.id)
			return nil
		}
		delete(s.db.replicas, s.id)
		return nil
	})
	if errors.Is(err, membership.ErrFenced) {
		return nil
	}
	return err
}

// Campaign implements membership.Store.
func (s *Session) Campaign(ctx context.Context, asOf time.Time) (term int64, err error) {
	var before membership.Replica
	err = s.call(ctx, "Campaign", func(now time.Time) error {
		d := s.db
		if d.holder != s.id {
			if !d.expires.IsZero() {
				if !hasExpired(d.expires, now) || !hasExpired(d.expires, asOf) {
					return nil
				}
				before = d.leave(d.holder)
			}
			d.holder = s.id
			d.term++
		}
		d.expires = now.Add(membership.LeaseTime)
		term = d.term
		return nil
	})
	s.fenced(before)
	if err != nil {
		return 0, err
	}
	return term, nil
}

// Resign implements membership.Store.
func (s *Session) Resign(ctx context.Context) error {
	return s.call(ctx, "Resign", func(time.Time) error {
		s.db.resign(s.id)
		return nil
	})
}

// resign ends the leadership of a server.
func (d *Database) resign(id string) {
	if d.holder == id {
		d.expires = time.Time{}
	}
}

// leave fences a server as one that left with unfinished work, and returns the
// record from before.
func (d *Database) leave(id string) membership.Replica {
	r, ok := d.replicas[id]
	if !ok {
		return r
	}
	next := r
	next.Epoch++
	next.ExpiresAt = time.Time{}
	d.replicas[id] = next
	return r
}

// fenced reports a server that was fenced.
func (s *Session) fenced(before membership.Replica) {
	if before.ID != "" && s.Fenced != nil {
		s.Fenced(before)
	}
}

// Expired implements membership.Store.
func (s *Session) Expired(ctx context.Context) (expired []membership.Replica, err error) {
	err = s.call(ctx, "Expired", func(now time.Time) error {
		for _, id := range slices.Sorted(maps.Keys(s.db.replicas)) {
			if r := s.db.replicas[id]; id != s.id && hasExpired(r.ExpiresAt, now) {
				expired = append(expired, r)
			}
		}
		return nil
	})
	slices.SortFunc(expired, func(a, b membership.Replica) int { return strings.Compare(a.ID, b.ID) })
	return expired, err
}

// Fence implements membership.Store.
func (s *Session) Fence(ctx context.Context, id string, asOf time.Time) (r membership.Replica, err error) {
	var before membership.Replica
	err = s.call(ctx, "Fence", func(now time.Time) error {
		var ok bool
		if r, ok = s.db.replicas[id]; !ok {
			return membership.ErrReplicaNotFound
		}
		if !r.HasLeft() && !(hasExpired(r.ExpiresAt, now) && hasExpired(r.ExpiresAt, asOf)) {
			return membership.ErrNotExpired
		}
		before = r
		r.Epoch++
		r.ExpiresAt = now.Add(membership.LeaseTime)
		s.db.replicas[id] = r
		return nil
	})
	s.fenced(before)
	return r, err
}

// RemoveReplica implements membership.Store.
func (s *Session) RemoveReplica(ctx context.Context, r membership.Replica) error {
	return s.call(ctx, "RemoveReplica", func(time.Time) error {
		if now, ok := s.db.replicas[r.ID]; !ok || now.Epoch != r.Epoch {
			return membership.ErrReplicaNotFound
		}
		delete(s.db.replicas, r.ID)
		return nil
	})
}

func hasExpired(expires, now time.Time) bool {
	return expires.Before(now.Add(-membership.TakeoverMargin))
}

var _ membership.Store = (*Session)(nil)
