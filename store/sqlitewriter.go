package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/membership"
)

// batchLimit bounds how many changes share a transaction, and so how long the
// first of them waits for the last.
const batchLimit = 256

// sqliteWriter runs all changes of an SQLite database, one after another, and
// commits all queued changes together: a flush to disk costs the same for one
// change as for a hundred.
type sqliteWriter struct {
	*sqliteSession
	self    *atomic.Pointer[membership.Replica] // the owner of the changes
	publish func([]activity.Event)              // receives committed events, before update returns
	wake    chan struct{}                       // holds a token when the queue may have changes
	done    chan struct{}                       // closed when the goroutine has ended
	calls   atomic.Int64                        // of update
	mu      sync.Mutex                          // guards the two fields below
	queue   []*change
	closed  bool
}

// change is a function in the queue, and its result.
type change struct {
	fn    func(*tx) error
	taken atomic.Bool // by the writer, or by a caller that no longer waits
	err   error       // the result; read after done is closed
	done  chan struct{}
}

// errPanic indicates that a change panicked. It was undone.
var errPanic = errors.New("a change of a record panicked")

// startSQLiteWriter starts the writer's goroutine, which ends when stop is
// called.
func startSQLiteWriter(ctx context.Context, db *sql.DB, self *atomic.Pointer[membership.Replica], publish func([]activity.Event)) (*sqliteWriter, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect the writer: %w", err)
	}
	w := &sqliteWriter{
		sqliteSession: &sqliteSession{conn: conn, stmts: map[string]*sql.Stmt{}}, self: self, publish: publish,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go w.run()
	return w, nil
}

// update runs a change and waits until it is durable. The change is made
// completely or not at all. The end of ctx is an error only if the change has
// not begun.
func (w *sqliteWriter) update(ctx context.Context, f func(*tx) error) error {
	w.calls.Add(1)
	f = causedBy(ctx, f)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c := &change{fn: f, done: make(chan struct{})}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
	}
	w.queue = append(w.queue, c)
	w.mu.Unlock()
	w.signal()

	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	if c.taken.CompareAndSwap(false, true) {
		return context.Cause(ctx)
	}
	<-c.done
	return c.err
}

func (w *sqliteWriter) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // there is already a token
	}
}

// stop refuses further changes, lets the queued ones finish and waits for the
// goroutine to end.
func (w *sqliteWriter) stop() error {
	w.mu.Lock()
	again := w.closed
	w.closed = true
	w.mu.Unlock()
	w.signal()
	<-w.done
	if again {
		return nil
	}
	return w.conn.Close()
}

// run commits batches until the writer is closed and its queue empty.
func (w *sqliteWriter) run() {
	defer close(w.done)
	for range w.wake {
		for {
			// Callers that just got a result often queue their next change at
			// once. Yield to them, so that it shares this flush instead of the
			// next.
			goruntime.Gosched()
			batch, closed := w.nextBatch()
			if len(batch) == 0 && closed {
				return
			}
			if len(batch) == 0 {
				break
			}
			w.commit(batch)
		}
	}
}

// nextBatch removes the next batch from the queue, and drops the changes whose
// callers no longer wait.
func (w *sqliteWriter) nextBatch() (batch []*change, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > 0 && len(batch) < batchLimit {
		c := w.queue[0]
		w.queue[0] = nil
		w.queue = w.queue[1:]
		if c.taken.CompareAndSwap(false, true) {
			batch = append(batch, c)
		}
	}
	return batch, w.closed
}

// commit runs a batch in one transaction and sets the result of each of its
// changes.
func (w *sqliteWriter) commit(batch []*change) {
	events, err := w.transact(batch)
	if err != nil {
		// All changes are undone, so none may report success. None may report a
		// refusal either, because its cause may be another change of the batch,
		// which was undone.
		w.rollback()
		for _, c := range batch {
			c.err = err
		}
	}
	if err == nil && len(events) > 0 {
		w.publish(events)
	}
	for _, c := range batch {
		close(c.done)
	}
}

// transact runs the changes and undoes each that fails, then appends the events
// of those that succeeded and commits. If it returns an error, the whole
// transaction must be undone.
func (w *sqliteWriter) transact(batch []*change) ([]activity.Event, error) {
	if err := w.execLater("BEGIN IMMEDIATE"); err != nil {
		return nil, fmt.Errorf("begin a transaction: %w", err)
	}
	t := &tx{session: w.sqliteSession, owner: replicaID(w.self.Load())}
	var events []activity.Event
	for _, c := range batch {
		// The only change in a transaction needs no savepoint.
		if err := w.apply(t, c, len(batch) > 1); err != nil {
			return nil, err
		}
		if c.err == nil {
			events = append(events, t.events...)
		}
	}
	if len(batch) == 1 && batch[0].err != nil {
		return nil, batch[0].err
	}
	if err := w.appendEvents(events); err != nil {
		return nil, err
	}
	if err := w.execLater("COMMIT"); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	return events, nil
}

// apply runs one change. If it returns an error, the transaction is lost.
func (w *sqliteWriter) apply(t *tx, c *change, shared bool) error {
	t.reset()
	if shared {
		if err := w.execLater("SAVEPOINT change"); err != nil {
			return fmt.Errorf("begin a change: %w", err)
		}
	}
	c.err = callRecovering(c.fn, t)
	if !shared {
		return nil
	}
	if c.err != nil {
		// On a full disk SQLite undoes the whole transaction by itself. Then
		// there is no savepoint any more, and the batch cannot continue.
		if err := w.execLater("ROLLBACK TO change"); err != nil {
			if isStorageError(c.err) {
				return c.err
			}
			return fmt.Errorf("undo a change: %w", err)
		}
	}
	if err := w.execLater("RELEASE change"); err != nil {
		return fmt.Errorf("end a change: %w", err)
	}
	return nil
}

// isStorageError reports whether the error comes from the database itself, and
// not from its contents.
func isStorageError(err error) bool {
	return slices.ContainsFunc([]error{ErrDiskFull, ErrLocked, ErrReadOnly, ErrCorrupt},
		func(storage error) bool { return errors.Is(err, storage) })
}

// callRecovering turns a panic of a change into an error: the writer serves all
// callers and must survive a bug in one caller's function.
func callRecovering(f func(*tx) error, t *tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanic, p, debug.Stack())
		}
	}()
	return f(t)
}

// rollback ends the transaction. It fails when SQLite has already ended it, and
// then there is nothing to undo.
func (w *sqliteWriter) rollback() { _ = w.execLater("ROLLBACK") }

// appendEvents numbers the events and appends them to the log.
func (w *sqliteWriter) appendEvents(events []activity.Event) error {
	if len(events) == 0 {
		return nil
	}
	var last int64
	if err := w.query(reserveSeqs, len(events)).Scan(&last); err != nil {
		return fmt.Errorf("number events: %w", translateError(err))
	}
	numberEvents(events, last)
	for i, e := range events {
		args, err := eventArgs(e, i, len(events))
		if err != nil {
			return err
		}
		if err := w.execLater(insertEvent.text, args...); err != nil {
			return fmt.Errorf("append event %s: %w", e.Type, err)
		}
	}
	return nil
}
