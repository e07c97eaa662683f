package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hostler/hostler/activity"
)

// How changes of other servers are heard of.
const (
	// recheckInterval is how long the log's end is believed that has not moved. What is
	// announced arrives at once, but a connection can be lost without a word.
	recheckInterval = 5 * time.Second
	// reconnectDelay is how long to wait before connecting again.
	reconnectDelay = 500 * time.Millisecond
)

// listener hears of events that any server has committed, and has the tail
// read them. What it hears is only that there is something: the table is the
// truth.
type listener struct {
	db     *DB
	config *pgx.ConnConfig
	schema schemaRef
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended
}

// startListener starts the listener's goroutine, which ends when close is
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

// run listens until ctx ends, with a new connection whenever one is lost.
// Nobody is told why it was: those who read and write are told, by the calls
// that fail.
func (l *listener) run(ctx context.Context) {
	defer close(l.done)
	for ctx.Err() == nil {
		_ = l.listen(ctx)
		_ = sleep(ctx, reconnectDelay)
	}
}

// listen listens with one connection, for as long as it lasts.
func (l *listener) listen(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it was only listened to
	if _, err := conn.Exec(ctx, `LISTEN `+l.schema.channel()); err != nil {
		return err
	}
	for {
		// First of all, for what was announced before we listened.
		if err := l.poll(ctx, conn); err != nil {
			return err
		}
		if err := l.waitNotification(ctx, conn); err != nil {
			return err
		}
	}
}

// poll reads the events that the tail does not have. It asks for the log's end
// on the connection that it listens with: one that is dead says so.
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

// waitNotification returns when an event is announced that the tail does not have, or when
// nothing was for a while.
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
		// What this server commits, it need not read.
		if err != nil || server != l.schema.server && l.db.buffer.lastContiguous() < last {
			return nil
		}
	}
}

// catchUp reads into the tail what it does not have.
func (db *DB) catchUp(ctx context.Context) error {
	last, err := db.LastSeq(ctx)
	if err != nil {
		return err
	}
	from := db.buffer.lastContiguous()
	if last-from > eventBufferLength {
		return db.primeBuffer(ctx) // the newest end will do
	}
	page, err := db.readStored(ctx, activity.Filter{}, from, eventBufferLength)
	if err != nil {
		return fmt.Errorf("read events after %d: %w", from, err)
	}
	if len(page.Items) == 0 || page.Items[0].Seq != from+1 {
		return db.primeBuffer(ctx) // retention was faster
	}
	db.buffer.add(page.Items)
	return nil
}
