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
	// recheck is how long the log's end is believed that has not moved. What is
	// announced arrives at once, but a connection can be lost without a word.
	recheck = 5 * time.Second
	// relisten is how long to wait before connecting again.
	relisten = 500 * time.Millisecond
)

// listener hears of events that any server has committed, and has the tail
// read them. What it hears is only that there is something: the table is the
// truth.
type listener struct {
	db     *DB
	config *pgx.ConnConfig
	place  place
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended
}

// startListener starts the listener's goroutine, which ends when close is
// called.
func startListener(db *DB, config *pgx.ConnConfig, p place) *listener {
	ctx, cancel := context.WithCancel(context.Background())
	l := &listener{db: db, config: config.Copy(), place: p, cancel: cancel, done: make(chan struct{})}
	go l.run(ctx)
	return l
}

func (l *listener) close() error {
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
		_ = wait(ctx, relisten)
	}
}

// listen listens with one connection, for as long as it lasts.
func (l *listener) listen(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it was only listened to
	if _, err := conn.Exec(ctx, `LISTEN `+l.place.channel()); err != nil {
		return err
	}
	for {
		// First of all, for what was announced before we listened.
		if err := l.look(ctx, conn); err != nil {
			return err
		}
		if err := l.wait(ctx, conn); err != nil {
			return err
		}
	}
}

// look reads the events that the tail does not have. It asks for the log's end
// on the connection that it listens with: one that is dead says so.
func (l *listener) look(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last int64
	if err := conn.QueryRow(ctx, selectLast).Scan(&last); err != nil {
		return err
	}
	if l.db.tail.end() >= last {
		return nil
	}
	return l.db.catchUp(ctx)
}

// wait returns when an event is announced that the tail does not have, or when
// nothing was for a while.
func (l *listener) wait(ctx context.Context, conn *pgx.Conn) error {
	quiet, cancel := context.WithTimeout(ctx, recheck)
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
		if err != nil || server != l.place.server && l.db.tail.end() < last {
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
	from := db.tail.end()
	if last-from > tailLength {
		return db.warm(ctx) // the newest end will do
	}
	page, err := db.stored(ctx, activity.Filter{}, from, tailLength)
	if err != nil {
		return fmt.Errorf("read events after %d: %w", from, err)
	}
	if len(page.Items) == 0 || page.Items[0].Seq != from+1 {
		return db.warm(ctx) // retention was faster
	}
	db.tail.add(page.Items)
	return nil
}
