package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/membership"
)

// postgresSession runs the statements of one change. It collects them until an
// answer is needed, and sends them together, because most of the time of a
// change is network latency.
type postgresSession struct {
	ctx    context.Context //nolint:containedctx // the session is one call's
	conn   *pgx.Conn
	schema schemaRef
	batch  *pgx.Batch // statements not sent yet
	id     txID       // the transaction's, once there is an answer
}

// txID identifies a transaction. After a failover the new server may reuse a
// number that the old one gave to a transaction that was lost, but its timeline
// differs.
type txID struct{ number, timeline string }

const (
	selectTxID = `SELECT pg_current_xact_id()::text, ` + timeline
	timeline   = `left(pg_walfile_name(pg_current_wal_lsn()), 8)`
	// txStatus is NULL when the server cannot know.
	txStatus = `SELECT CASE WHEN ` + timeline + ` = $2 THEN pg_xact_status($1::text::xid8) END`
)

// newPostgresSession returns a session that begins with a transaction. Whatever
// the database server's default is, each statement must see what others
// committed before it. If self is set, the first answer, which arrives before
// the commit is sent, reports whether self may still write.
func newPostgresSession(ctx context.Context, conn *pgx.Conn, p schemaRef, self *membership.Replica) *postgresSession {
	s := &postgresSession{ctx: ctx, conn: conn, schema: p, batch: &pgx.Batch{}}
	s.batch.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`)
	s.batch.Queue(selectTxID).QueryRow(func(r pgx.Row) error { return r.Scan(&s.id.number, &s.id.timeline) })
	if self != nil {
		s.batch.Queue(checkFence, self.ID, self.Epoch).QueryRow(isUnfenced)
	}
	return s
}

// isUnfenced returns membership.ErrFenced if the server's row has changed.
func isUnfenced(r pgx.Row) error {
	var epoch int64
	err := r.Scan(&epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		return membership.ErrFenced
	}
	return err
}

func (s *postgresSession) exec(query string, args ...any) (n int64, err error) {
	s.batch.Queue(query, args...).Exec(func(tag pgconn.CommandTag) error {
		n = tag.RowsAffected()
		return nil
	})
	return n, s.flush()
}

func (s *postgresSession) execLater(query string, args ...any) error {
	s.batch.Queue(query, args...)
	return nil
}

func (s *postgresSession) query(query string, args ...any) row {
	return postgresRow{s, query, args}
}

// postgresRow is a row that is queried when it is scanned.
type postgresRow struct {
	session *postgresSession
	query   string
	args    []any
}

func (r postgresRow) Scan(dest ...any) error {
	s := r.session
	var scanned error
	s.batch.Queue(r.query, r.args...).QueryRow(func(row pgx.Row) error {
		// A missing row fails the query and not the batch: the driver would
		// discard all that it has prepared for the batch.
		if scanned = row.Scan(dest...); errors.Is(scanned, pgx.ErrNoRows) {
			return nil
		}
		return scanned
	})
	if err := s.flush(); err != nil {
		return err
	}
	return scanned
}

func (s *postgresSession) lockWorkload(workload string) error {
	return s.execLater(`SELECT pg_advisory_xact_lock($1)`, s.schema.key("workload", workload))
}

func (s *postgresSession) lockQuota(scope string) error {
	return s.execLater(`SELECT pg_advisory_xact_lock($1)`, s.schema.key("quota", scope))
}

// flush sends the collected statements and waits for the answers.
func (s *postgresSession) flush() error {
	batch := s.batch
	s.batch = &pgx.Batch{}
	err := s.conn.SendBatch(s.ctx, batch).Close()
	if err != nil && s.ctx.Err() != nil {
		return fmt.Errorf("%w: no answer in time (%w)", ErrUnavailable, err)
	}
	return translateError(err)
}

// errCommitUnknown indicates that a commit was sent and its answer was lost.
var errCommitUnknown = errors.New("the outcome of the commit is unknown")

// notifyCommit announces the new end of the log, and which server committed it.
const notifyCommit = `SELECT pg_notify($1, last || ' ' || $2) FROM log WHERE id = 1`

// commit numbers the events, appends them to the log, announces them and ends
// the transaction, in one message, because the transaction that holds the log's
// row blocks all others.
func (s *postgresSession) commit(events []activity.Event) error {
	if s.id.number == "" { // without it the outcome of the commit could not be determined
		if err := s.flush(); err != nil {
			return err
		}
	}
	var last int64
	if n := len(events); n > 0 {
		s.batch.Queue(reserveSeqs, n).QueryRow(func(r pgx.Row) error { return r.Scan(&last) })
		for i, e := range events {
			args, err := eventArgs(e, i, n)
			if err != nil {
				return err
			}
			s.batch.Queue(insertEvent.text, args...)
		}
		s.batch.Queue(notifyCommit, s.schema.channel(), s.schema.server)
	}
	s.batch.Queue(`COMMIT`)
	err := s.flush()
	if err == nil {
		numberEvents(events, last)
		return nil
	}
	// A fatal error may have occurred after the commit.
	if foreign, ok := errors.AsType[*pgconn.PgError](err); ok && foreign.SeverityUnlocalized == "ERROR" {
		return err
	}
	return fmt.Errorf("%w: %w", errCommitUnknown, err)
}

// rollback ends a transaction that is open. When that fails the connection is
// lost, and the database undoes the transaction.
func (s *postgresSession) rollback() {
	const idle = 'I'
	if s.conn.IsClosed() || s.conn.PgConn().TxStatus() == idle {
		return
	}
	if _, err := s.conn.Exec(s.ctx, `ROLLBACK`); err != nil {
		_ = s.conn.Close(s.ctx)
	}
}
