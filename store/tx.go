package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/runtime"
)

// writer makes changes of the database.
type writer interface {
	// update runs f in a transaction, with the events that f asks for, and returns
	// when all of it is durable, or an error when none of it has happened. An
	// end of ctx is an error only as long as f has not begun. f may run more
	// than once, each time as if it had never run before, and may not block.
	update(ctx context.Context, f func(*tx) error) error
	// stop finishes the changes that were asked for, and refuses later ones
	// with ErrClosed. Closing twice is nil.
	stop() error
}

// session runs statements in the transaction of a change. They take no
// context: the end of one caller's must not spoil what others share.
type session interface {
	// exec runs a statement and returns how many rows it changed.
	exec(query string, args ...any) (int64, error)
	// execLater runs a statement at the latest when the transaction ends, and
	// before any other that comes after it. Whatever it returns, the
	// transaction fails if the statement does. A database that is not in this
	// process is told of it together with what comes next.
	execLater(query string, args ...any) error
	// query runs a query for one row, whose Scan is sql.ErrNoRows without one.
	query(query string, args ...any) row
	// lockWorkload lets no two changes that ask for it with the same workload go on
	// at once: what rests on a row that is not there, or on a count of rows,
	// finds no row to lock.
	lockWorkload(workload string) error
}

// How queries lock what they find until the end of the transaction. A change
// locks in this order, so that no two wait for each other: workload, claim,
// container, log. SQLite, which makes one change at a time, is not told.
const (
	// forUpdate waits for whoever changes the row, and then sees what became
	// of it.
	forUpdate = ` FOR UPDATE`
	// forShare waits as forUpdate does, and for nobody else who waits like this.
	forShare = ` FOR KEY SHARE`
	// skipLocked passes over rows that somebody else has locked.
	skipLocked = forUpdate + ` SKIP LOCKED`
)

// tx is what a change sees of the transaction that it is part of.
type tx struct {
	session
	protocols runtime.Protocols
	owner     string // the server whose change it is, empty if it has not registered
	now       time.Time
	events    []activity.Event
}

// checkProtocol refuses to change what has to do with a container of that version
// when a newer server made it: this one cannot know how.
func (t *tx) checkProtocol(protocol int) error {
	if t.protocols.IsNewer(protocol) {
		return t.protocols.Check(protocol)
	}
	return nil
}

// reset makes it ready for the next change.
func (t *tx) reset() {
	t.now = time.Unix(0, time.Now().UnixNano()).UTC() // as it will be read back
	t.events = t.events[:0]
}

// row is what both *sql.Row and *sql.Rows offer.
type row interface{ Scan(dest ...any) error }

// failedRow is a row that could not be asked for.
type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

// addEvents has the events written with the change.
func (t *tx) addEvents(events ...activity.Event) error {
	for _, e := range events {
		if len(e.Data) > 0 && !json.Valid(e.Data) {
			return fmt.Errorf("event %s: its data is no JSON", e.Type)
		}
		e.Time = t.now
		e.Message = sanitizeText(truncateMessage(e.Message))
		e.Data = json.RawMessage(sanitizeText(string(e.Data)))
		t.events = append(t.events, e)
	}
	return nil
}

// maxMessage bounds an event's message, which may tell what a container answered.
const maxMessage = 8 << 10

func truncateMessage(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return s[:maxMessage] + "…"
}

// The numbers of a transaction's events are taken all at once, last of all:
// whoever holds the log's row commits next, so that numbers grow in the order
// of commits and have no gaps. An event says how far before the last of them
// its own number is, so that it can be sent before that is known.
const (
	reserveSeqs = `UPDATE log SET last = last + $1 WHERE id = 1 RETURNING last`
	insertEvent = `INSERT INTO events (` + eventColumns + `)
		VALUES ((SELECT last FROM log WHERE id = 1) - $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`
)

// eventArgs are the arguments of insertEvent for the i-th of n events.
func eventArgs(e activity.Event, i, n int) []any {
	return []any{
		n - 1 - i, toNanos(e.Time), string(e.Type), e.Workload, e.Container,
		e.Tenant, e.Claim, e.Run, e.Point, e.Message, string(e.Data),
	}
}

// numberEvents gives the events their numbers, of which the last is known.
func numberEvents(events []activity.Event, last int64) {
	for i := range events {
		events[i].Seq = last - int64(len(events)-1-i)
	}
}

// readTx runs f in a read transaction: all that f reads is of one moment.
func (db *DB) readTx(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := db.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: db.dialect.snapshotIsolation})
	if err != nil {
		return translateError(err)
	}
	defer tx.Rollback() //nolint:errcheck // it has read only
	return translateError(f(tx))
}
