package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hostler/hostler/activity"
)

// tx is what a change sees of the transaction that it is part of. Statements
// run without a context: the transaction is shared, and the end of one
// caller's context must not spoil it for the others.
type tx struct {
	writer *writer
	now    time.Time
	events []activity.Event
}

// begin makes it ready for the next change.
func (t *tx) begin() {
	t.now = time.Unix(0, time.Now().UnixNano()).UTC() // as it will be read back
	t.events = t.events[:0]
}

// exec runs a statement and returns how many rows it changed.
func (t *tx) exec(query string, args ...any) (int64, error) {
	stmt, err := t.writer.prepare(query)
	if err != nil {
		return 0, err
	}
	res, err := stmt.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, translate(err)
	}
	n, err := res.RowsAffected()
	return n, translate(err)
}

// row is what both *sql.Row and *sql.Rows offer.
type row interface{ Scan(dest ...any) error }

// failedRow is a row that could not be asked for.
type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

// query runs a query for one row, whose Scan is sql.ErrNoRows without one.
func (t *tx) query(query string, args ...any) row {
	stmt, err := t.writer.prepare(query)
	if err != nil {
		return failedRow{err}
	}
	return stmt.QueryRowContext(context.Background(), args...)
}

// event has the events written with the change.
func (t *tx) event(events ...activity.Event) error {
	for _, e := range events {
		if len(e.Data) > 0 && !json.Valid(e.Data) {
			return fmt.Errorf("event %s: its data is no JSON", e.Type)
		}
		e.Time = t.now
		e.Message = clean(e.Message)
		t.events = append(t.events, e)
	}
	return nil
}

const (
	takeSeqs    = `UPDATE log SET last = last + $1 WHERE id = 1 RETURNING last`
	insertEvent = `INSERT INTO events (` + eventColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`
)

// log numbers the events and appends them to the log.
func (t *tx) log(events []activity.Event) error {
	if len(events) == 0 {
		return nil
	}
	var last int64
	if err := t.query(takeSeqs, len(events)).Scan(&last); err != nil {
		return fmt.Errorf("number events: %w", translate(err))
	}
	for i := range events {
		e := &events[i]
		e.Seq = last - int64(len(events)-1-i)
		_, err := t.exec(insertEvent, e.Seq, nanos(e.Time), string(e.Type), e.Workload, e.Container,
			e.Tenant, e.Claim, e.Run, e.Point, e.Message, string(e.Data))
		if err != nil {
			return fmt.Errorf("append event %s: %w", e.Type, err)
		}
	}
	return nil
}

// readTx runs f in a read transaction: all that f reads is of one moment.
func (db *DB) readTx(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := db.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return translate(err)
	}
	defer tx.Rollback() //nolint:errcheck // it has read only
	return translate(f(tx))
}
