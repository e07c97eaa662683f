package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/pool"
)

var _ pool.EventLog = (*DB)(nil)

// maxEvents is the length of a page of events when the caller sets no limit.
const maxEvents = 1000

// Append writes events that belong to no change, all or none.
func (db *DB) Append(ctx context.Context, events ...activity.Event) error {
	err := db.writer.update(ctx, func(t *tx) error { return t.addEvents(events...) })
	if err != nil {
		return fmt.Errorf("append events: %w", err)
	}
	return nil
}

// Changed returns a channel that is closed when events are committed after
// this call. A follower that takes it, reads to the end of the log, and then
// waits on it misses nothing.
func (db *DB) Changed() <-chan struct{} { return db.buffer.subscribe() }

const selectLast = `SELECT last FROM log WHERE id = 1`

// LastSeq returns the number of the newest event, 0 before the first. Pages that are
// read after it are up to that event at least, whichever server has committed it.
func (db *DB) LastSeq(ctx context.Context) (int64, error) {
	last, err := queryRow(ctx, db, scanNumber, selectLast)
	if err != nil {
		return 0, fmt.Errorf("read the last event's number: %w", err)
	}
	db.buffer.expect(last)
	return last, nil
}

// Events returns the page of matching events after a number, at most limit of
// them (0: 1000).
func (db *DB) Events(ctx context.Context, f activity.Filter, after int64, limit int) (activity.Page, error) {
	if limit <= 0 {
		limit = maxEvents
	}
	after = max(after, 0)
	p, ok, err := db.buffer.page(f, after, limit)
	if err == nil && !ok {
		rewinds := p.Rewinds // before the read
		p, err = db.readStored(ctx, f, after, limit)
		p.Rewinds = rewinds
	}
	if err != nil {
		return activity.Page{}, fmt.Errorf("read events after %d: %w", after, err)
	}
	return p, nil
}

// NewestEvents returns the last matching events, at most limit of them, in the order
// of the log. Next is the end of the log at that time.
func (db *DB) NewestEvents(ctx context.Context, f activity.Filter, limit int) (activity.Page, error) {
	p, err := withRetry(ctx, db, func(ctx context.Context) (p activity.Page, err error) {
		err = db.readTx(ctx, func(tx *sql.Tx) error {
			if err := tx.QueryRowContext(ctx, selectLast).Scan(&p.Next); err != nil {
				return err
			}
			query, args := newestQuery(f, limit)
			rows, err := tx.QueryContext(ctx, query, args...)
			if err != nil {
				return err
			}
			p.Items, err = collectRows(rows, eventColumns.scan)
			return err
		})
		return p, err
	})
	if err != nil {
		return activity.Page{}, fmt.Errorf("read the newest events: %w", err)
	}
	slices.Reverse(p.Items)
	return p, nil
}

var eventColumns = columns[activity.Event]{
	// An event is inserted with its distance from the last number.
	{
		name: "seq", use: key, field: func(e *activity.Event) any { return &e.Seq },
		expr: `(SELECT last FROM log WHERE id = 1) - $seq`,
	},
	{name: "time", use: immutable, field: func(e *activity.Event) any { return (*nanos)(&e.Time) }},
	{name: "type", use: immutable, field: func(e *activity.Event) any { return (*string)(&e.Type) }},
	{name: "workload", use: immutable, field: func(e *activity.Event) any { return &e.Workload }},
	{name: "container", use: immutable, field: func(e *activity.Event) any { return &e.Container }},
	{name: "tenant", use: immutable, field: func(e *activity.Event) any { return &e.Tenant }},
	{name: "claim", use: immutable, field: func(e *activity.Event) any { return &e.Claim }},
	{name: "run", use: immutable, field: func(e *activity.Event) any { return &e.Run }},
	{name: "point", use: immutable, field: func(e *activity.Event) any { return &e.Point }},
	{name: "depth", use: immutable, field: func(e *activity.Event) any { return &e.Depth }},
	{name: "message", use: immutable, field: func(e *activity.Event) any { return &e.Message }},
	{name: "data", use: immutable, field: func(e *activity.Event) any { return (*rawObject)(&e.Data) }},
	{name: "untrusted", use: immutable, field: func(e *activity.Event) any { return (*flag)(&e.Untrusted) }},
	{name: "priority", use: immutable, field: func(e *activity.Event) any { return &e.Priority }},
	{name: "actor", use: immutable, field: func(e *activity.Event) any { return &e.Actor }},
	{name: "address", use: immutable, field: func(e *activity.Event) any { return &e.Address }},
	{name: "request_id", use: immutable, field: func(e *activity.Event) any { return &e.Request }},
	{name: "request", use: immutable, field: func(e *activity.Event) any { return &e.Publication }},
}

var (
	selectEvents = `SELECT ` + eventColumns.names(nil) + ` FROM events`
	insertEvent  = eventColumns.insert("events")
)

// readStored reads a page from the database.
func (db *DB) readStored(ctx context.Context, f activity.Filter, after int64, limit int) (activity.Page, error) {
	return withRetry(ctx, db, func(ctx context.Context) (activity.Page, error) {
		return db.readStoredOnce(ctx, f, after, limit)
	})
}

func (db *DB) readStoredOnce(ctx context.Context, f activity.Filter, after int64, limit int) (activity.Page, error) {
	var p activity.Page
	err := db.readTx(ctx, func(tx *sql.Tx) error {
		var last, pruned int64
		err := tx.QueryRowContext(ctx, `SELECT last, pruned FROM log WHERE id = 1`).Scan(&last, &pruned)
		if err != nil {
			return err
		}
		if after < pruned {
			p.OldestSeq = pruned + 1 // unless it is a published one that was removed
		}
		p.Next = max(after, last)
		query, args := eventQuery(f, after, limit)
		rows, err := tx.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		p.Items, err = collectRows(rows, eventColumns.scan)
		if len(p.Items) == limit {
			p.Next = p.Items[limit-1].Seq
		}
		return err
	})
	return p, err
}

// eventQuery returns the query for a page.
func eventQuery(f activity.Filter, after int64, limit int) (string, []any) {
	w := eventConditions(f, after)
	query := selectEvents + w.String() + orderEvents + w.limit(limit)
	return query, w.args
}

// newestQuery returns the query for the newest events, the newest first.
func newestQuery(f activity.Filter, limit int) (string, []any) {
	w := eventConditions(f, 0)
	query := selectEvents + w.String() + ordered(orderEvents, true) + w.limit(limit)
	return query, w.args
}

const orderEvents = ` ORDER BY seq`

// eventConditions returns the conditions of the matching events after a number.
func eventConditions(f activity.Filter, after int64) *where {
	w := &where{}
	w.add("seq > " + w.arg(after))
	w.equal("claim", f.Claim)
	w.equal("container", f.Container)
	w.equal("tenant", f.Tenant)
	w.equal("workload", f.Workload)
	w.equal("point", f.Point)
	w.equal("actor", f.Actor)
	w.equal("run", f.Run)
	w.scope(f.Scope, "claim")
	w.labelled("claim", f.Labels)
	if len(f.Types) > 0 {
		var anyOf []string
		for _, t := range f.Types {
			thing := string(t) + "."
			anyOf = append(anyOf, "type = "+w.arg(string(t)),
				fmt.Sprintf("substr(type, 1, %d) = %s", len(thing), w.arg(thing)))
		}
		w.add("(" + strings.Join(anyOf, " OR ") + ")")
	}
	if f.Untrusted != nil {
		w.add(fmt.Sprintf("untrusted = %d", boolToInt(*f.Untrusted))) // not an argument: 1 is the condition of an index
	}
	if f.MinPriority > 0 {
		w.add("(priority IS NULL OR priority >= " + w.arg(f.MinPriority) + ")")
	}
	return w
}
