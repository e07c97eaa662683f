package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hostler/hostler/internal/backoff"
)

// readRetryTimeout is how long a read is retried while the database is
// unavailable.
const readRetryTimeout = 5 * time.Second

// retries is how a read or a change is retried.
var retries = backoff.Policy{Min: 10 * time.Millisecond, Max: 500 * time.Millisecond, Jitter: 0.2}

// reader is the connections for reads. It counts the reads.
type reader struct {
	*sql.DB
	calls atomic.Int64
}

// QueryContext is sql.DB.QueryContext.
func (r *reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	r.calls.Add(1)
	return r.DB.QueryContext(ctx, query, args...)
}

// QueryRowContext is sql.DB.QueryRowContext.
func (r *reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	r.calls.Add(1)
	return r.DB.QueryRowContext(ctx, query, args...)
}

// BeginTx is sql.DB.BeginTx.
func (r *reader) BeginTx(ctx context.Context, o *sql.TxOptions) (*sql.Tx, error) {
	r.calls.Add(1)
	return r.DB.BeginTx(ctx, o)
}

// queryRow reads the row that a query returns.
func queryRow[T any](ctx context.Context, db *DB, scan func(row) (T, error), query string, args ...any) (T, error) {
	return withRetry(ctx, db, func(ctx context.Context) (T, error) {
		v, err := scan(db.read.QueryRowContext(ctx, query, args...))
		return v, translateError(err)
	})
}

// changeError returns the error of a transition, or of a note, which has no state.
// That there is no such record comes first.
func changeError(err, missing error, what, id, state string) error {
	if state == "" || errors.Is(err, missing) {
		return readError(err, missing, "update "+what, id)
	}
	return fmt.Errorf("update %s %s to %s: %w", what, id, state, err)
}

// readError returns the error of reading one record. That there is none comes
// first, and its id once: callers add nothing.
func readError(err, missing error, doing, id string) error {
	if errors.Is(err, missing) {
		return fmt.Errorf("%w: %.100q", missing, id)
	}
	return fmt.Errorf("%s %s: %w", doing, id, err)
}

// queryAll reads all rows that a query returns. The argument what names them in
// errors.
func queryAll[T any](ctx context.Context, db *DB, what, query string, args []any, scan func(row) (T, error)) ([]T, error) {
	all, err := withRetry(ctx, db, func(ctx context.Context) ([]T, error) {
		rows, err := db.read.QueryContext(ctx, query, args...)
		if err != nil {
			return nil, translateError(err)
		}
		all, err := collectRows(rows, scan)
		return all, translateError(err)
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", what, err)
	}
	return all, nil
}

// collectRows scans all rows and closes them.
func collectRows[T any](rows *sql.Rows, scan func(row) (T, error)) ([]T, error) {
	defer rows.Close() //nolint:errcheck // Err returns what went wrong
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

// withRetry reads, and retries while the database is unavailable, up to
// readRetryTimeout: a server that is replaced by another is back within
// seconds.
func withRetry[T any](ctx context.Context, db *DB, read func(context.Context) (T, error)) (T, error) {
	deadline := time.Now().Add(readRetryTimeout)
	for wait := retries.Retries(); ; {
		v, err := withReadTimeout(ctx, db.dialect.readTimeout, read)
		if err != nil && db.closed.Load() {
			return v, fmt.Errorf("%w (%w)", ErrClosed, err)
		}
		if !errors.Is(err, ErrUnavailable) || time.Now().After(deadline) {
			return v, err
		}
		if err := wait.Sleep(ctx); err != nil {
			return v, err
		}
	}
}

// withReadTimeout reads, and returns ErrUnavailable when there is no answer
// within the timeout.
func withReadTimeout[T any](ctx context.Context, timeout time.Duration, read func(context.Context) (T, error)) (T, error) {
	if timeout == 0 {
		return read(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	v, err := read(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: no answer within %s (%w)", ErrUnavailable, timeout, err)
	}
	return v, err
}

// sleep waits for d, or returns the cause of the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
