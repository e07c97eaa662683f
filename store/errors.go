package store

import (
	"errors"

	"modernc.org/sqlite"
)

// Errors of this package.
var (
	// ErrClosed indicates that the database is closed.
	ErrClosed = errors.New("the database is closed")
	// ErrInUse indicates that another server has the database open.
	ErrInUse = errors.New("another server uses the database")
	// ErrSchema indicates that the database has the tables of an older or newer
	// Hostler.
	ErrSchema = errors.New("the database is of another version of Hostler")
	// ErrDiskFull indicates that the disk has no space for the change.
	ErrDiskFull = errors.New("the disk that holds the database is full")
	// ErrLocked indicates that another program has locked the database for
	// longer than the busy timeout.
	ErrLocked = errors.New("another program has locked the database")
	// ErrReadOnly indicates that the file, or its disk, is not writable.
	ErrReadOnly = errors.New("the database cannot be written")
	// ErrCorrupt indicates that the file is not a valid database.
	ErrCorrupt = errors.New("the database file is damaged")
	// ErrClockSkew indicates that this machine's clock and the database's
	// differ by more than servers that share a database can tolerate.
	ErrClockSkew = errors.New("this machine's clock and the database's are too far apart")
	// ErrUnavailable indicates that the database server is unreachable.
	ErrUnavailable = errors.New("the database cannot be reached")
	// ErrExists indicates that a record of that id already exists.
	ErrExists = errors.New("the record already exists")
	// ErrRunNotFound indicates that there is no record of the hook run.
	ErrRunNotFound = errors.New("no such hook run")
)

// errSerialization indicates that another change was committed between this
// change's reads and its writes, and that this change must be retried.
var errSerialization = errors.New("conflict with a concurrent change")

// translateError turns an error of a database into one of this package, and
// keeps its text.
func translateError(err error) error {
	if foreign, ok := errors.AsType[*sqlite.Error](err); ok {
		return translateSQLite(err, foreign)
	}
	return translatePostgres(err)
}
