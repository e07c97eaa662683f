package store

import (
	"fmt"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/hostler/hostler/pool"
)

// sqliteCodes maps SQLite's primary result codes to errors of this package.
var sqliteCodes = map[int]error{
	sqlite3.SQLITE_FULL:     ErrDiskFull,
	sqlite3.SQLITE_BUSY:     ErrLocked,
	sqlite3.SQLITE_LOCKED:   ErrLocked,
	sqlite3.SQLITE_READONLY: ErrReadOnly,
	sqlite3.SQLITE_IOERR:    ErrReadOnly,
	sqlite3.SQLITE_CORRUPT:  ErrCorrupt,
	sqlite3.SQLITE_NOTADB:   ErrCorrupt,
}

// sqliteUniques maps the columns that SQLite names in a uniqueness violation to
// the error of this package.
var sqliteUniques = []struct {
	columns string
	err     error
}{
	{"claims.workload, claims.tenant", pool.ErrConflict}, // the tenant has another live claim
	{"claims.container", pool.ErrInUse},
	{"containers.claim", pool.ErrInUse},
	{"claims.id", ErrExists},
	{"containers.id", ErrExists},
	{"runs.id, runs.attempt", ErrExists},
}

func translateSQLite(err error, foreign *sqlite.Error) error {
	const primary = 0xff // the low byte; the rest is the extended code
	if foreign.Code()&primary == sqlite3.SQLITE_CONSTRAINT {
		for _, u := range sqliteUniques {
			if strings.Contains(foreign.Error(), "UNIQUE constraint failed: "+u.columns+" (") {
				return fmt.Errorf("%w (%w)", u.err, err)
			}
		}
		return err
	}
	if ours, ok := sqliteCodes[foreign.Code()&primary]; ok {
		return fmt.Errorf("%w (%w)", ours, err)
	}
	return err
}
