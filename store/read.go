package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// patience is how long a database that is away is asked again.
const patience = 5 * time.Second

// Between two attempts of the same there is a pause, twice as long each time.
const (
	firstPause   = 10 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// one reads the row that a query finds.
func one[T any](ctx context.Context, db *DB, scan func(row) (T, error), query string, args ...any) (T, error) {
	return patiently(ctx, db, func(ctx context.Context) (T, error) {
		v, err := scan(db.read.QueryRowContext(ctx, query, args...))
		return v, translate(err)
	})
}

// list reads all that a query finds. What names it, for errors.
func list[T any](ctx context.Context, db *DB, what, query string, args []any, scan func(row) (T, error)) ([]T, error) {
	all, err := patiently(ctx, db, func(ctx context.Context) ([]T, error) {
		rows, err := db.read.QueryContext(ctx, query, args...)
		if err != nil {
			return nil, translate(err)
		}
		all, err := collect(rows, scan)
		return all, translate(err)
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", what, err)
	}
	return all, nil
}

// collect scans all rows and closes them.
func collect[T any](rows *sql.Rows, scan func(row) (T, error)) ([]T, error) {
	defer rows.Close() //nolint:errcheck // Err says what went wrong
	var all []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// scanNumber scans a single number, scanText a single text.
func scanNumber(r row) (n int64, err error) {
	err = r.Scan(&n)
	return n, err
}

func scanText(r row) (s string, err error) {
	err = r.Scan(&s)
	return s, err
}

// patiently reads, and reads again when the database was away, until it has
// been for too long: a server that is replaced by another is back in seconds.
func patiently[T any](ctx context.Context, db *DB, read func(context.Context) (T, error)) (T, error) {
	deadline := time.Now().Add(patience)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		v, err := audibly(ctx, db.dialect.silence, read)
		if err != nil && db.closed.Load() {
			return v, fmt.Errorf("%w (%w)", ErrClosed, err)
		}
		if !errors.Is(err, ErrAway) || time.Now().After(deadline) {
			return v, err
		}
		if err := wait(ctx, pause); err != nil {
			return v, err
		}
	}
}

// audibly reads, and says that the database is away when it says nothing for
// too long.
func audibly[T any](ctx context.Context, silence time.Duration, read func(context.Context) (T, error)) (T, error) {
	if silence == 0 {
		return read(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	v, err := read(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: no answer within %s (%w)", ErrAway, silence, err)
	}
	return v, err
}

// wait waits, or returns why ctx has ended.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
