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
	"github.com/hostler/hostler/membership"
)

// How changes of a PostgreSQL database are made.
const (
	// txTimeout bounds a transaction, which normally takes milliseconds. An
	// unreachable server does not always cause an error.
	txTimeout = 15 * time.Second
	// maxSerializationRetries is how often a change is retried after conflicts
	// with concurrent changes.
	maxSerializationRetries = 20
)

// postgresWriter makes changes of a PostgreSQL database, as many at once as
// there are connections, each in a transaction of its own. They wait for each
// other where they change the same rows, and, if they have events, for the
// log's row: from the numbering of their events, which is sent together with
// the commit, to the end of the commit.
//
// Measured in claims and releases a second with a hundred at a time, against
// one writer that commits queued changes together, as SQLite's does: the same
// rate (420) with the database on the same machine, and 13 times the rate (270
// to 21) with a round trip of 2 ms, because a single writer also waits for the
// answers of all changes one after another. Several writers that commit
// together were faster on one machine only (770), and with many rows in a
// transaction two servers could wait for each other.
type postgresWriter struct {
	pool    *pgxpool.Pool
	schema  schemaRef
	self    *atomic.Pointer[membership.Replica] // the server whose fence is checked
	publish func([]activity.Event)              // receives committed events, before update returns
	catchUp func(context.Context) error         // reads events that were committed and not published
	// stopsWithCaller is whether the end of a caller's context, or of txTimeout,
	// stops its change at once, with an unknown outcome.
	stopsWithCaller bool

	mu     sync.RWMutex // held for reading by changes in progress; guards closed
	closed bool
}

// update makes a change. It retries when the connection was lost before the
// commit, and after a conflict with a concurrent change.
func (w *postgresWriter) update(ctx context.Context, f func(*tx) error) error {
	f = causedBy(ctx, f)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return ErrClosed
	}
	if w.stopsWithCaller { // changes wait for a connection as long as their callers do
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, txTimeout)
		defer cancel()
	}
	deadline := time.Now().Add(readRetryTimeout)
	wait := retries.Retries()
	for attempt := 1; ; attempt++ {
		err := w.tryOnce(ctx, f)
		again := errors.Is(err, errSerialization) && attempt < maxSerializationRetries ||
			errors.Is(err, ErrUnavailable) && !errors.Is(err, errCommitUnknown) && time.Now().Before(deadline)
		if !again {
			return err
		}
		if err := wait.Sleep(ctx); err != nil {
			return err
		}
	}
}

// stop waits for the changes in progress and refuses further ones.
func (w *postgresWriter) stop() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	return nil
}

// tryOnce makes one attempt at a change.
func (w *postgresWriter) tryOnce(ctx context.Context, f func(*tx) error) error {
	id, err := w.transact(ctx, f)
	if errors.Is(err, errCommitUnknown) {
		return w.resolveUnknownCommit(ctx, id, err)
	}
	return err
}

// transact makes a change in a transaction, and returns its id. Once the
// transaction has begun, the end of ctx does not stop it, unless
// w.stopsWithCaller.
func (w *postgresWriter) transact(ctx context.Context, f func(*tx) error) (id txID, err error) {
	conn, err := w.pool.Acquire(ctx)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return id, cause
		}
		return id, translateError(err)
	}
	defer conn.Release()
	ctx, cancel := w.limit(ctx)
	defer cancel()
	self := w.self.Load()
	s := newPostgresSession(ctx, conn.Conn(), w.schema, self)
	t := &tx{session: s, owner: replicaID(self)}
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

// limit returns the context of a transaction.
func (w *postgresWriter) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if !w.stopsWithCaller {
		ctx = context.WithoutCancel(ctx)
	}
	return context.WithTimeout(ctx, txTimeout)
}

// resolveUnknownCommit determines the outcome of a transaction whose commit was
// sent and not answered. It retries until the server answers, at most for
// txTimeout.
func (w *postgresWriter) resolveUnknownCommit(ctx context.Context, id txID, cause error) error {
	ctx, cancel := w.limit(ctx)
	defer cancel()
	for wait := retries.Retries(); ; {
		var status *string
		err := w.pool.QueryRow(ctx, txStatus, id.number, id.timeline).Scan(&status)
		switch {
		case err == nil && status != nil && *status == "committed":
			_ = w.catchUp(ctx) // if it fails, followers are notified later
			return nil
		case err == nil && status != nil && *status == "aborted":
			return fmt.Errorf("%w: its connection was lost", errSerialization) // the change was not made
		case err == nil && status == nil, err != nil && !errors.Is(translateError(err), ErrUnavailable):
			return errors.Join(cause, err) // another server, which has no record of it
		}
		if wait.Sleep(ctx) != nil {
			return cause
		}
	}
}
