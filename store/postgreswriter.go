package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hostler/hostler/activity"
)

// How changes of a PostgreSQL database are made.
const (
	// txTimeout bounds a transaction, which takes milliseconds: a server that is
	// out of reach does not always say so.
	txTimeout = 15 * time.Second
	// maxSerializationRetries is how often a change is made again that others came in between of.
	maxSerializationRetries = 20
)

// postgresWriter makes changes of a PostgreSQL database, as many at once as
// there are connections, each in a transaction of its own. They wait for each
// other where they change the same rows, and, if they tell of something, for
// the log's row: from the numbering of their events, which is sent together
// with the commit, to the commit's end.
//
// Measured against one writer that commits what has queued up together, as
// SQLite's does, in claims and releases a second with a hundred at a time: as
// many (420) with the database on the same machine, thirteen times as many
// (270 to 21) with 2 ms to it and back, for one writer also waits for the
// answers of all changes one after another. Several that commit together were
// faster on one machine only (770), and with many rows in a transaction two
// servers could wait for each other's.
type postgresWriter struct {
	pool    *pgxpool.Pool
	schema  schemaRef
	self    *atomic.Pointer[Replica]    // who has to be allowed to write still
	publish func([]activity.Event)      // told of committed events, before their callers are
	catchUp func(context.Context) error // reads events that were committed and not published
	mu      sync.RWMutex                // held for reading by changes under way; guards closed
	closed  bool
}

// update makes a change. It is made again when the connection was lost before it
// was durable, or when others came in between.
func (w *postgresWriter) update(ctx context.Context, f func(*tx) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return ErrClosed
	}
	deadline := time.Now().Add(readRetryTimeout)
	for attempt, backoff := 1, minBackoff; ; attempt, backoff = attempt+1, min(2*backoff, maxBackoff) {
		err := w.tryOnce(ctx, f)
		again := errors.Is(err, errSerialization) && attempt < maxSerializationRetries ||
			errors.Is(err, ErrUnavailable) && !errors.Is(err, errCommitUnknown) && time.Now().Before(deadline)
		if !again {
			return err
		}
		if err := sleep(ctx, backoff); err != nil {
			return err
		}
	}
}

// stop waits for the changes under way and refuses further ones.
func (w *postgresWriter) stop() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	return nil
}

// tryOnce makes one attempt of a change.
func (w *postgresWriter) tryOnce(ctx context.Context, f func(*tx) error) error {
	id, err := w.transact(ctx, f)
	if errors.Is(err, errCommitUnknown) {
		return w.resolveUnknownCommit(ctx, id, err)
	}
	return err
}

// transact makes a change in a transaction, whose id it returns. From its begin
// on the end of ctx does not stop it.
func (w *postgresWriter) transact(ctx context.Context, f func(*tx) error) (id txID, err error) {
	conn, err := w.pool.Acquire(ctx)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return id, cause
		}
		return id, translateError(err)
	}
	defer conn.Release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), txTimeout)
	defer cancel()
	self := w.self.Load()
	s := newPostgresSession(ctx, conn.Conn(), w.schema, self)
	t := &tx{session: s, owner: self.id()}
	t.reset()
	if err := callRecovering(f, t); err != nil {
		s.rollback()
		return s.id, err
	}
	if err := s.commit(t.events); err != nil {
		s.rollback()
		return s.id, fmt.Errorf("commit: %w", err)
	}
	if len(t.events) > 0 {
		w.publish(t.events)
	}
	return s.id, nil
}

// resolveUnknownCommit finds out what became of a transaction whose commit was sent and not
// answered, for as long as it takes the server to come back, in reason.
func (w *postgresWriter) resolveUnknownCommit(ctx context.Context, id txID, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), txTimeout)
	defer cancel()
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		var status *string
		err := w.pool.QueryRow(ctx, txStatus, id.number, id.timeline).Scan(&status)
		switch {
		case err == nil && status != nil && *status == "committed":
			_ = w.catchUp(ctx) // followers are told later, if this is too early
			return nil
		case err == nil && status != nil && *status == "aborted":
			return fmt.Errorf("%w: its connection was lost", errSerialization) // nothing has happened
		case err == nil && status == nil, err != nil && !errors.Is(translateError(err), ErrUnavailable):
			return errors.Join(cause, err) // another server, which does not know
		}
		if sleep(ctx, backoff) != nil {
			return cause
		}
	}
}
