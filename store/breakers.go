package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/pool"
)

var _ pool.Breakers = (*DB)(nil)

// breakerColumns are the columns of table pools, which has a row for each pool
// with failures.
var breakerColumns = columns[pool.Breaker]{
	{name: "workload", use: key, field: func(b *pool.Breaker) any { return &b.Workload }},
	{name: "revision", field: func(b *pool.Breaker) any { return &b.Revision }},
	{name: "failures", field: func(b *pool.Breaker) any { return &b.Failures }},
	{name: "last_error", field: func(b *pool.Breaker) any { return (*text)(&b.LastError) }},
	{name: "last_error_chain", field: func(b *pool.Breaker) any { return (*list)(&b.LastErrorChain) }},
	{name: "last_container", field: func(b *pool.Breaker) any { return &b.LastContainer }},
	{name: "last_error_at", field: func(b *pool.Breaker) any { return (*nanos)(&b.LastErrorAt) }},
	{name: "retry_at", field: func(b *pool.Breaker) any { return (*nanos)(&b.RetryAt) }},
	{name: "crash_looping", field: func(b *pool.Breaker) any { return (*flag)(&b.CrashLooping) }},
}

var (
	selectBreaker = `SELECT ` + breakerColumns.names(nil) + ` FROM pools WHERE workload = $1`
	putBreaker    = breakerColumns.upsert("pools")
)

const (
	deleteBreaker         = `DELETE FROM pools WHERE workload = $1`
	selectCurrentRevision = `SELECT revision FROM workloads WHERE id = $1`
)

// Breaker returns the breaker of a workload.
func (db *DB) Breaker(ctx context.Context, workload string) (pool.Breaker, error) {
	b, err := queryRow(ctx, db, scanBreaker, selectBreaker, sanitizeText(workload))
	if err != nil {
		return b, fmt.Errorf("read the failures of pool %s: %w", workload, err)
	}
	b.Workload = workload
	return b, nil
}

// UpdateBreaker changes the breaker of a workload's current revision. One without
// failures is removed, and so is that of a workload that does not exist.
func (db *DB) UpdateBreaker(ctx context.Context, workload string, set func(*pool.Breaker) []activity.Event) error {
	err := db.writer.update(ctx, func(t *tx) error {
		if err := t.lockWorkload(workload); err != nil {
			return err
		}
		b, err := scanBreaker(t.query(selectBreaker, workload))
		if err != nil {
			return err
		}
		current, err := scanText(t.query(selectCurrentRevision, workload))
		isDeleted := errors.Is(err, sql.ErrNoRows)
		if err != nil && !isDeleted {
			return translateError(err)
		}
		if b.Revision != current {
			b = pool.Breaker{Revision: current}
		}
		b.Workload = workload
		if err := t.addEvents(set(&b)...); err != nil {
			return err
		}
		if b.Failures == 0 || isDeleted {
			return t.execLater(deleteBreaker, workload)
		}
		b.Workload = workload
		return execLater(t, putBreaker, &b)
	})
	if err != nil {
		return fmt.Errorf("record the failures of pool %s: %w", workload, err)
	}
	return nil
}

func scanBreaker(r row) (pool.Breaker, error) {
	b, err := breakerColumns.scan(r)
	if errors.Is(err, sql.ErrNoRows) {
		return pool.Breaker{}, nil
	}
	return b, translateError(err)
}
