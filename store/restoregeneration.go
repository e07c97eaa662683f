package store

import (
	"context"
	"database/sql"
	"errors"
)

// keepGeneration has the generation of credentials in a copy be later than that of the
// database which it replaces. A copy of the time before the first credential would
// make the server open again. A database that cannot be read, or one of before there
// were credentials, changes nothing.
func keepGeneration(ctx context.Context, replaced, fresh string) error {
	n, err := generationIn(ctx, replaced)
	if err != nil || n == 0 {
		return nil //nolint:nilerr // a damaged database is a common reason to restore a copy
	}
	db, err := sql.Open("sqlite", uri(fresh, []string{"mode=rw"}))
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, `UPDATE credential_generation SET value = max(value, $1) + 1 WHERE id = 1`, n)
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	return syncToDisk(fresh)
}

// generationIn returns the generation of credentials in a database file, which it
// leaves as it is, with its side files.
func generationIn(ctx context.Context, path string) (n int64, err error) {
	db, err := sql.Open("sqlite", uri(path, []string{"mode=ro"}))
	if err != nil {
		return 0, err
	}
	err = db.QueryRowContext(ctx, selectGeneration).Scan(&n)
	return n, errors.Join(err, db.Close())
}
