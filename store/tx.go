package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/quota"
	"github.com/hostler/hostler/runtime"
)

// writer makes changes of the database.
type writer interface {
	// update runs f in a transaction, with the events that f adds. It returns
	// nil when all of it is durable, or an error when none of it was done. The
	// end of ctx is an error only if f has not begun. f may run more than once,
	// each time as if it had never run before, and must not block.
	update(ctx context.Context, f func(*tx) error) error
	// stop finishes the queued changes, and refuses later ones with ErrClosed.
	// A second call returns nil.
	stop() error
}

// session runs statements in the transaction of a change. They take no context:
// the end of one caller's context must not break a transaction that others
// share.
type session interface {
	// exec runs a statement and returns how many rows it changed.
	exec(query string, args ...any) (int64, error)
	// execLater runs a statement before the next one, and at the latest when
	// the transaction ends. Whatever it returns, the transaction fails if the
	// statement does. A remote database gets it together with the next
	// statement.
	execLater(query string, args ...any) error
	// query runs a query for one row. If there is none, Scan returns
	// sql.ErrNoRows.
	query(query string, args ...any) row
	// lockWorkload serializes the changes that call it with the same workload.
	// It is for changes that depend on the absence of a row or on a count of
	// rows, because these have no row to lock.
	lockWorkload(workload string) error
	// lockQuota does the same for changes that count what a scope of quotas uses.
	lockQuota(scope string) error
}

// How queries lock the rows that they return until the end of the transaction.
// A change locks in this order, so that no two deadlock: cursor, delivery,
// workload, quotas (tenant, key, workload), claim, wait, container, command, memory, credentials, log. SQLite makes one change at a time and needs no locks.
const (
	// forUpdate waits for other transactions that change the row, and then sees
	// the result.
	forUpdate = ` FOR UPDATE`
	// forShare waits as forUpdate does, but not for other holders of forShare.
	forShare = ` FOR KEY SHARE`
	// skipLocked skips rows that another transaction has locked.
	skipLocked = forUpdate + ` SKIP LOCKED`
)

// tx is the transaction of a change, as the change sees it.
type tx struct {
	session
	protocols runtime.Protocols
	quotas    quota.Defaults
	owner     string // the server that makes the change, empty if it has not registered
	now       time.Time
	actor     activity.Actor // who causes the change
	events    []activity.Event
}

// checkProtocol refuses to change a container of a protocol version newer than
// this server's, because this server cannot know how.
func (t *tx) checkProtocol(protocol int) error {
	if t.protocols.IsNewer(protocol) {
		return t.protocols.Check(protocol)
	}
	return nil
}

// reset prepares t for the next change.
func (t *tx) reset() {
	t.now = time.Unix(0, time.Now().UnixNano()).UTC() // as it will be read back
	t.events = t.events[:0]
}

// row is what both *sql.Row and *sql.Rows offer.
type row interface{ Scan(dest ...any) error }

// failedRow is a row whose query failed.
type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

// causedBy returns a change whose events have the actor of ctx.
func causedBy(ctx context.Context, f func(*tx) error) func(*tx) error {
	actor := activity.ActorOf(ctx)
	return func(t *tx) error {
		t.actor = actor
		return f(t)
	}
}

// addEvents adds events that are written with the change. One that has an actor
// already keeps it.
func (t *tx) addEvents(events ...activity.Event) error {
	for _, e := range events {
		if len(e.Data) > 0 && !json.Valid(e.Data) {
			return fmt.Errorf("event %s: its data is not valid JSON", e.Type)
		}
		e = e.CausedBy(t.actor)
		e.Actor, e.Address, e.Request = sanitizeText(e.Actor), sanitizeText(e.Address), sanitizeText(e.Request)
		e.Time = t.now
		e.Message = sanitizeText(truncateMessage(e.Message))
		e.Data = json.RawMessage(sanitizeText(string(e.Data)))
		t.events = append(t.events, e)
	}
	return nil
}

// maxMessage bounds an event's message, which may contain a container's answer.
const maxMessage = 8 << 10

func truncateMessage(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return s[:maxMessage] + "…"
}

// The numbers of a transaction's events are reserved together, as its last
// step. The transaction that holds the log's row commits next, so that numbers
// grow in the order of commits and have no gaps. An event is inserted with its
// distance from the last number, so that it can be sent before that number is
// known.
const reserveSeqs = `UPDATE log SET last = last + $1 WHERE id = 1 RETURNING last`

// eventArgs returns the arguments of insertEvent for the i-th of n events.
func eventArgs(e activity.Event, i, n int) ([]any, error) {
	e.Seq = int64(n - 1 - i)
	return insertEvent.args(&e)
}

// numberEvents sets the numbers of the events, given the last one.
func numberEvents(events []activity.Event, last int64) {
	for i := range events {
		events[i].Seq = last - int64(len(events)-1-i)
	}
}

// readTx runs f in a read transaction: all reads of f see one snapshot.
func (db *DB) readTx(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := db.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: db.dialect.snapshotIsolation})
	if err != nil {
		return translateError(err)
	}
	defer tx.Rollback() //nolint:errcheck // it only reads
	return translateError(f(tx))
}
