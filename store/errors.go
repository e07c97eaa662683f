package store

import (
	"errors"
	"fmt"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/hostler/hostler/pool"
)

// Errors of this package.
var (
	// ErrClosed says that the database has been closed.
	ErrClosed = errors.New("the database is closed")
	// ErrInUse says that another server has the database open.
	ErrInUse = errors.New("another server uses the database")
	// ErrNewer says that a newer Hostler has changed the database's schema.
	ErrNewer = errors.New("the database is of a newer Hostler")
	// ErrDiskFull says that there is no room for the change.
	ErrDiskFull = errors.New("the disk that holds the database is full")
	// ErrLocked says that another program has held the database for long.
	ErrLocked = errors.New("another program has locked the database")
	// ErrUnwritable says that the file, or its disk, may not be written.
	ErrUnwritable = errors.New("the database cannot be written")
	// ErrDamaged says that the file is no sound database.
	ErrDamaged = errors.New("the database file is damaged")
	// ErrExists says that there is a record of that id already.
	ErrExists = errors.New("there is such a record already")
	// ErrNoRun says that there is no record of the hook run.
	ErrNoRun = errors.New("no such hook run")
)

// codes says what SQLite's primary result codes mean to us.
var codes = map[int]error{
	sqlite3.SQLITE_FULL:     ErrDiskFull,
	sqlite3.SQLITE_BUSY:     ErrLocked,
	sqlite3.SQLITE_LOCKED:   ErrLocked,
	sqlite3.SQLITE_READONLY: ErrUnwritable,
	sqlite3.SQLITE_IOERR:    ErrUnwritable,
	sqlite3.SQLITE_CORRUPT:  ErrDamaged,
	sqlite3.SQLITE_NOTADB:   ErrDamaged,
}

// uniques says what it means that a row would have been the second of its
// kind, by the columns that SQLite names.
var uniques = []struct {
	columns string
	err     error
}{
	{"claims.workload, claims.tenant", pool.ErrMoved}, // the tenant has another live claim
	{"claims.container", pool.ErrInUse},
	{"containers.claim", pool.ErrInUse},
	{"claims.id", ErrExists},
	{"containers.id", ErrExists},
	{"runs.id, runs.attempt", ErrExists},
}

// translate turns an error of SQLite into one of ours, keeping its text.
func translate(err error) error {
	foreign, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return err
	}
	const primary = 0xff // the low byte; the rest says more precisely
	if foreign.Code()&primary == sqlite3.SQLITE_CONSTRAINT {
		for _, u := range uniques {
			if strings.Contains(foreign.Error(), "UNIQUE constraint failed: "+u.columns+" (") {
				return fmt.Errorf("%w (%w)", u.err, err)
			}
		}
		return err
	}
	if ours, ok := codes[foreign.Code()&primary]; ok {
		return fmt.Errorf("%w (%w)", ours, err)
	}
	return err
}
