package store

import (
	"errors"

	"modernc.org/sqlite"
)

// Errors of this package.
var (
	// ErrClosed says that the database has been closed.
	ErrClosed = errors.New("the database is closed")
	// ErrInUse says that another server has the database open.
	ErrInUse = errors.New("another server uses the database")
	// ErrSchemaTooNew says that a newer Hostler has changed the database's schema.
	ErrSchemaTooNew = errors.New("the database is of a newer Hostler")
	// ErrDiskFull says that there is no room for the change.
	ErrDiskFull = errors.New("the disk that holds the database is full")
	// ErrLocked says that another program has held the database for long.
	ErrLocked = errors.New("another program has locked the database")
	// ErrReadOnly says that the file, or its disk, may not be written.
	ErrReadOnly = errors.New("the database cannot be written")
	// ErrCorrupt says that the file is no sound database.
	ErrCorrupt = errors.New("the database file is damaged")
	// ErrClockSkew says that this machine's clock and the database's disagree by
	// more than servers can that share a database.
	ErrClockSkew = errors.New("this machine's clock and the database's are too far apart")
	// ErrUnavailable says that the database's server cannot be reached.
	ErrUnavailable = errors.New("the database cannot be reached")
	// ErrExists says that there is a record of that id already.
	ErrExists = errors.New("there is such a record already")
	// ErrRunNotFound says that there is no record of the hook run.
	ErrRunNotFound = errors.New("no such hook run")
)

// errSerialization says that another change came between what this one read and what
// it wrote, and that it has to be made again.
var errSerialization = errors.New("another change came in between")

// translateError turns an error of a database into one of ours, keeping its text.
func translateError(err error) error {
	if foreign, ok := errors.AsType[*sqlite.Error](err); ok {
		return translateSQLite(err, foreign)
	}
	return translatePostgres(err)
}
