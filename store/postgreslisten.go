package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hostler/hostler/activity"
)

// How changes of other servers are observed.
const (
	// recheckInterval is how often the log's end is read without a
	// notification. Notifications arrive at once, but a connection can be lost
	// silently.
	recheckInterval = 5 * time.Second
	// reconnectDelay is the delay before connecting again.
	reconnectDelay = 500 * time.Millisecond
)

// listener receives notifications of events that any server has committed, and
// makes the event buffer read them. A notification only reports that there are
// events: the table is authoritative.
type listener struct {
	db     *DB
	config *pgx.ConnConfig
	schema schemaRef
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended
}

// startListener starts the listener's goroutine, which ends when stop is
// called.
func startListener(db *DB, config *pgx.ConnConfig, p schemaRef) *listener {
	ctx, cancel := context.WithCancel(context.Background())
	l := &listener{db: db, config: config.Copy(), schema: p, cancel: cancel, done: make(chan struct{})}
	go l.run(ctx)
	return l
}

func (l *listener) stop() error {
	l.cancel()
	<-l.done
	return nil
}

// run listens until ctx ends, with a new connection whenever one is lost. It
// does not report why: readers and writers get the error from their own calls.
func (l *listener) run(ctx context.Context) {
	defer close(l.done)
	for ctx.Err() == nil {
		_ = l.listen(ctx)
		_ = sleep(ctx, reconnectDelay)
	}
}

// listen listens on one connection, for as long as it lasts.
func (l *listener) listen(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it was only used for notifications
	if err := l.subscribe(ctx, conn); err != nil {
		return err
	}
	if err := l.db.verifyBuffer(ctx); err != nil {
		return err
	}
	for {
		// First of all, for events that were announced before LISTEN.
		if err := l.poll(ctx, conn); err != nil {
			return err
		}
		if err := l.waitNotification(ctx, conn); err != nil {
			return err
		}
	}
}

func (l *listener) subscribe(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, readRetryTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, `LISTEN `+l.schema.channel())
	return err
}

// poll reads the events that the buffer does not have. It reads the log's end
// on the connection that it listens on, so that a dead connection is detected.
func (l *listener) poll(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, readRetryTimeout)
	defer cancel()
	var last int64
	if err := conn.QueryRow(ctx, selectLast).Scan(&last); err != nil {
		return err
	}
	if l.db.buffer.lastContiguous() >= last {
		return nil
	}
	return l.db.catchUp(ctx)
}

// waitNotification returns when an event is announced that the buffer does not
// have, or after recheckInterval.
func (l *listener) waitNotification(ctx context.Context, conn *pgx.Conn) error {
	quiet, cancel := context.WithTimeout(ctx, recheckInterval)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(quiet)
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		var last int64
		var server string
		_, err = fmt.Sscan(n.Payload, &last, &server)
		// This server need not read what it commits itself.
		if err != nil || server != l.schema.server && l.db.buffer.lastContiguous() < last {
			return nil
		}
	}
}

// verifyBuffer drops events that the log has lost. It is called with every new
// connection, because a failover breaks the former one.
func (db *DB) verifyBuffer(ctx context.Context) error {
	before := db.buffer.newestKnown()
	last, page, err := db.readNewest(ctx)
	if err != nil {
		return err
	}
	db.buffer.verify(before, last, page.Items)
	return nil
}

// catchUp reads the events that the buffer does not have.
func (db *DB) catchUp(ctx context.Context) error {
	last, err := db.LastSeq(ctx)
	if err != nil {
		return err
	}
	from := db.buffer.lastContiguous()
	if last-from > eventBufferLength {
		return db.primeBuffer(ctx) // the newest events are enough
	}
	page, err := db.readStored(ctx, activity.Filter{}, from, eventBufferLength)
	if err != nil {
		return fmt.Errorf("read events after %d: %w", from, err)
	}
	if page.Next == from || page.OldestSeq > 0 {
		return db.primeBuffer(ctx) // retention was faster
	}
	db.buffer.add(withPlaceholders(page.Items, from, page.Next))
	return nil
}
