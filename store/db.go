package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/membership"
	"github.com/hostler/hostler/quota"
	"github.com/hostler/hostler/runtime"
)

// DB is the store. It is safe for concurrent use.
type DB struct {
	dialect       dialect
	writer        writer
	leases        writer          // of this server's lease and of others'
	groups        *deliveryGroups // nil where the writer commits all changes together
	read          reader
	buffer        *eventBuffer
	self          atomic.Pointer[membership.Replica] // this server, once it has registered
	lockExclusive func(context.Context) error        // nil where opening is enough
	closed        atomic.Bool
	protocols     runtime.Protocols
	quotas        quota.Defaults
	closers       []func() error // close what was opened, in the order of opening
}

// dialect describes how the databases differ for readers and writers;
// sqlite*.go and postgres*.go have the rest.
type dialect struct {
	kind              string             // SQLite or PostgreSQL
	types             sqlTypes           // what the schema writes for it
	hasTables         string             // queries whether the database has tables of Hostler
	info              string             // queries the version and the size
	replace           string             // how to begin with an empty database
	snapshotIsolation sql.IsolationLevel // at which a read transaction sees one snapshot
	singleServer      bool               // whether an open database has no other server
	readTimeout       time.Duration      // of one read; 0 for none
	clockQuery        string             // reads the database's clock; empty where leases do not depend on clocks
}

// Open opens the database, and creates its tables if there are none. Tables of
// another version of Hostler are ErrSchema, and stay as they are.
//
// The dsn is the path of an SQLite file, or "sqlite:" and the path. Open
// creates the file and its directory, and one process at a time can have it
// open (ErrInUse). Or the dsn is the URL of a PostgreSQL database,
// "postgres://...", which any number of processes may have open. No error
// contains the URL's password.
func Open(ctx context.Context, dsn string) (*DB, error) {
	open := (*DB).openPostgres
	if !isPostgres(dsn) {
		open = (*DB).openSQLite
		dsn = strings.TrimPrefix(dsn, "sqlite:")
		if scheme, _, found := strings.Cut(dsn, "://"); found {
			return nil, fmt.Errorf("open database: unknown scheme %q", scheme)
		}
	}
	db := &DB{buffer: newEventBuffer()}
	if err := open(db, ctx, dsn); err != nil {
		return nil, fmt.Errorf("open database %s: %w", Redact(dsn), errors.Join(translateError(err), db.closeAll()))
	}
	return db, nil
}

// LockExclusive locks the database for this process, until it is closed. If
// another process has the lock, the error is ErrInUse. A caller that relies on
// no other server resuming or undoing its work calls it once, before it changes
// anything.
func (db *DB) LockExclusive(ctx context.Context) error {
	if db.lockExclusive == nil {
		return nil // Open has locked the file
	}
	if err := db.lockExclusive(ctx); err != nil {
		return fmt.Errorf("lock the database for this server: %w", err)
	}
	return nil
}

// SetProtocols sets the protocol versions of the containers that this server
// supports. It is called once, before any change. Containers that are added
// have the current version. Containers of a newer version are not reserved, and
// every change of such a container, or of a claim whose flow has one, is
// runtime.ErrNewer.
func (db *DB) SetProtocols(p runtime.Protocols) { db.protocols = p }

// SetQuotas sets the limits of this server's claims where a scope has none of its
// own. It is called once, before any change.
func (db *DB) SetQuotas(defaults quota.Defaults) { db.quotas = defaults }

// QuotaDefaults returns them.
func (db *DB) QuotaDefaults() quota.Defaults { return db.quotas }

// update makes a change that concerns containers.
func (db *DB) update(ctx context.Context, f func(*tx) error) error {
	return db.writer.update(ctx, func(t *tx) error {
		t.protocols, t.quotas = db.protocols, db.quotas
		return f(t)
	})
}

// Calls returns how often an SQLite database was asked or changed: an idle server does
// neither.
func (db *DB) Calls() int64 {
	n := db.read.calls.Load()
	if w, ok := db.writer.(*sqliteWriter); ok {
		n += w.calls.Load()
	}
	return n
}

// Close finishes the writes in progress, refuses later ones with ErrClosed and
// closes the database. A second call returns nil.
func (db *DB) Close() error {
	db.closed.Store(true)
	err := errors.Join(db.writer.stop(), db.leases.stop())
	db.buffer.stop()
	return errors.Join(err, db.closeAll())
}

// closeAll closes what was opened, in reverse order.
func (db *DB) closeAll() error {
	var errs []error
	for _, c := range slices.Backward(db.closers) {
		errs = append(errs, c())
	}
	db.closers = nil
	return errors.Join(errs...)
}

// primeBuffer fills the event buffer with the newest events of the log.
func (db *DB) primeBuffer(ctx context.Context) error {
	last, page, err := db.readNewest(ctx)
	if err != nil {
		return err
	}
	db.buffer.reset(last, page.Items)
	return nil
}

// readNewest reads the number of the last event, and the newest events with
// placeholders for those that were removed from between them.
func (db *DB) readNewest(ctx context.Context) (last int64, page activity.Page, err error) {
	if last, err = db.LastSeq(ctx); err != nil {
		return 0, page, err
	}
	from := max(0, last-eventBufferLength)
	page, err = db.readStored(ctx, activity.Filter{}, from, eventBufferLength)
	page.Items = withPlaceholders(page.Items, max(from, page.OldestSeq-1), page.Next)
	return last, page, err
}
