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

	"github.com/pressly/goose/v3"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/runtime"
)

// DB is the store. It is safe for many goroutines.
type DB struct {
	dialect       dialect
	writer        writer
	read          *sql.DB
	buffer        *eventBuffer
	self          atomic.Pointer[Replica]     // this server, once it has registered
	lockExclusive func(context.Context) error // nil where opening is enough
	closed        atomic.Bool
	protocols     runtime.Protocols
	closers       []func() error // close what was opened, in its order
}

// dialect is in what the databases differ for those who read and write them;
// sqlite*.go and postgres*.go have the rest.
type dialect struct {
	goose             goose.Dialect
	migrations        string             // their folder
	snapshotIsolation sql.IsolationLevel // at which a read transaction sees one moment
	singleServer      bool               // whether an open database has no other server
	readTimeout       time.Duration      // after which a read is not waited for, if not 0
	clockQuery        string             // asks for its time, if servers are told by it who lives
}

// Open opens the database, makes its tables when there are none, and brings
// its schema up to date. A schema from the future is ErrNewer.
//
// The dsn is the path of an SQLite file, or "sqlite:" and the path: the file
// and its folder are made, and one process at a time can have it open
// (ErrInUse). Or it is the URL of a PostgreSQL database, "postgres://...",
// which any number of processes may have open. No error has the URL's password
// in it.
func Open(ctx context.Context, dsn string) (*DB, error) {
	open := (*DB).openPostgres
	if !isPostgres(dsn) {
		open = (*DB).openSQLite
		dsn = strings.TrimPrefix(dsn, "sqlite:")
		if scheme, _, found := strings.Cut(dsn, "://"); found {
			return nil, fmt.Errorf("open database: %q is no kind of store", scheme)
		}
	}
	db := &DB{buffer: newEventBuffer()}
	if err := open(db, ctx, dsn); err != nil {
		return nil, fmt.Errorf("open database %s: %w", Redact(dsn), errors.Join(translateError(err), db.closeAll()))
	}
	return db, nil
}

// LockExclusive keeps the database for this process, for as long as it is open: with
// another one that has it, it is ErrInUse. It is called once, before anything
// is changed, by who relies on no other server taking up or undoing what this
// one has begun.
func (db *DB) LockExclusive(ctx context.Context) error {
	if db.lockExclusive == nil {
		return nil // Open has locked the file
	}
	if err := db.lockExclusive(ctx); err != nil {
		return fmt.Errorf("keep the database for this server: %w", err)
	}
	return nil
}

// SetProtocols says which containers this server can speak to. It is called once,
// before anything is changed. The containers that are added are of the current
// version; those of a newer one are not reserved, and every change of them, or
// of a claim's flow that has one, is runtime.ErrNewer.
func (db *DB) SetProtocols(p runtime.Protocols) { db.protocols = p }

// update makes a change that has to do with containers.
func (db *DB) update(ctx context.Context, f func(*tx) error) error {
	return db.writer.update(ctx, func(t *tx) error {
		t.protocols = db.protocols
		return f(t)
	})
}

// Close finishes the writes that are under way, refuses later ones with
// ErrClosed and lets go of the database. Closing twice is nil.
func (db *DB) Close() error {
	db.closed.Store(true)
	err := db.writer.stop()
	db.buffer.stop()
	return errors.Join(err, db.closeAll())
}

// closeAll closes what has been opened, what came first last.
func (db *DB) closeAll() error {
	var errs []error
	for _, c := range slices.Backward(db.closers) {
		errs = append(errs, c())
	}
	db.closers = nil
	return errors.Join(errs...)
}

// primeBuffer fills the tail with the newest events of the log.
func (db *DB) primeBuffer(ctx context.Context) error {
	last, err := db.LastSeq(ctx)
	if err != nil {
		return err
	}
	after := max(0, last-eventBufferLength)
	page, err := db.readStored(ctx, activity.Filter{}, after, eventBufferLength)
	if err != nil {
		return err
	}
	db.buffer.reset(last, page.Items)
	return nil
}
