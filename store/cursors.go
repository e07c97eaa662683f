package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/hostler/hostler/activity"
)

const (
	selectCursor = `SELECT seq FROM cursors WHERE name = $1`
	addCursor    = `INSERT INTO cursors (name, seq) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`
	moveCursor   = `UPDATE cursors SET seq = $3 WHERE name = $1 AND seq = $2`
	// countBehind counts the cursors that have not passed an event.
	countBehind   = `SELECT count(*) FROM cursors WHERE seq < $1`
	selectCursors = `SELECT name, seq, (SELECT last FROM log WHERE id = 1) - seq,
		COALESCE((SELECT time FROM events WHERE events.seq = cursors.seq + 1), 0) FROM cursors ORDER BY name`
)

// Tx is a change in progress, for a function that writes in its transaction.
type Tx struct{ t *tx }

// Append writes events with the change.
func (t Tx) Append(events ...activity.Event) error { return t.t.addEvents(events...) }

// errCursorMoved undoes a change because another server handles the events.
var errCursorMoved = errors.New("another server has moved the cursor")

// Advance calls handle with the events after the named cursor, at most limit, in
// the transaction that moves the cursor past them. What handle writes is there
// exactly if the cursor has moved: no event is handled twice or missed, whenever
// a server is killed and however many servers call Advance. It reports whether
// there may be more events. A cursor begins at the end of the log, with its
// first use, and Prune keeps the events that it has not passed.
//
// handle must not block, nor do anything but write with its Tx: it may be
// called again with the same events, as if it had never been called, and its
// error or panic undoes everything.
func (db *DB) Advance(ctx context.Context, name string, limit int, handle func(Tx, []activity.Event) error) (more bool, err error) {
	from, err := queryRow(ctx, db, scanNumber, selectCursor, name)
	if errors.Is(err, sql.ErrNoRows) {
		from, err = db.addCursor(ctx, name)
	}
	if err != nil {
		return false, fmt.Errorf("read cursor %s: %w", name, err)
	}
	return db.advance(ctx, name, from, limit, func(_ context.Context, events []activity.Event) (func(*tx) error, error) {
		return func(t *tx) error { return handle(Tx{t}, events) }, nil
	})
}

// advance moves the named cursor from a number past the next events, at most
// limit, with what prepare returns for them. prepare may block.
func (db *DB) advance(ctx context.Context, name string, from int64, limit int, prepare func(context.Context, []activity.Event) (func(*tx) error, error)) (more bool, err error) {
	page, err := db.Events(ctx, activity.Filter{}, from, limit)
	if err != nil || len(page.Items) == 0 {
		return false, err
	}
	handle, err := prepare(ctx, page.Items)
	if err != nil {
		return false, err
	}
	err = db.writer.update(ctx, func(t *tx) error {
		// The row is locked until the commit, and the events before it never change.
		n, err := t.exec(moveCursor, name, from, page.Next)
		if err != nil {
			return err
		}
		if n == 0 {
			return errCursorMoved
		}
		return handle(t)
	})
	if errors.Is(err, errCursorMoved) {
		return true, nil // perhaps not to the end, and by a server that exits now
	}
	if err != nil {
		return false, fmt.Errorf("advance cursor %s after %d: %w", name, from, err)
	}
	return len(page.Items) == limit, nil
}

// addCursor adds a cursor at the end of the log, if there is none, and returns
// its position. While it holds the log's row no event is recorded or pruned.
func (db *DB) addCursor(ctx context.Context, name string) (seq int64, err error) {
	err = db.writer.update(ctx, func(t *tx) error {
		last, err := scanNumber(t.query(selectLast + forUpdate))
		if err != nil {
			return translateError(err)
		}
		if err := t.execLater(addCursor, name, last); err != nil {
			return err
		}
		seq, err = scanNumber(t.query(selectCursor, name))
		return translateError(err)
	})
	return seq, err
}

// Cursors lists the cursors by name.
func (db *DB) Cursors(ctx context.Context) ([]activity.Cursor, error) {
	return queryAll(ctx, db, "cursors", selectCursors, nil, func(r row) (activity.Cursor, error) {
		var c activity.Cursor
		var oldest int64
		err := r.Scan(&c.Name, &c.Seq, &c.Behind, &oldest)
		c.Oldest = fromNanos(oldest)
		return c, err
	})
}
