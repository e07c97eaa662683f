package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hostler/hostler/activity"
)

// postgresSession runs the statements of one change. It gathers them until an
// answer is needed, and sends them together: of the time that a change takes
// most is spent on the way.
type postgresSession struct {
	ctx    context.Context //nolint:containedctx // the session is one call's
	conn   *pgx.Conn
	schema schemaRef
	batch  *pgx.Batch // what was not sent yet
	id     txID       // the transaction's, once there was an answer
}

// txID names a transaction. After a failover the new server may give a number
// again that the old one gave to what it has lost: its timeline is another.
type txID struct{ number, timeline string }

const (
	selectTxID = `SELECT pg_current_xact_id()::text, ` + timeline
	timeline   = `left(pg_walfile_name(pg_current_wal_lsn()), 8)`
	// txStatus is NULL when the server cannot know.
	txStatus = `SELECT CASE WHEN ` + timeline + ` = $2 THEN pg_xact_status($1::text::xid8) END`
)

// newPostgresSession returns a session that begins with a transaction.
// Whatever the server's default is, each statement is to see what others have
// committed before it. The first answer, which comes before the commit is sent,
// says whether self may still write, if there is one.
func newPostgresSession(ctx context.Context, conn *pgx.Conn, p schemaRef, self *Replica) *postgresSession {
	s := &postgresSession{ctx: ctx, conn: conn, schema: p, batch: &pgx.Batch{}}
	s.batch.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`)
	s.batch.Queue(selectTxID).QueryRow(func(r pgx.Row) error { return r.Scan(&s.id.number, &s.id.timeline) })
	if self != nil {
		s.batch.Queue(checkFence, self.ID, self.Epoch).QueryRow(isUnfenced)
	}
	return s
}

// isUnfenced says whether the server's row is as it was.
func isUnfenced(r pgx.Row) error {
	var epoch int64
	err := r.Scan(&epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrFenced
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

// postgresRow is asked for when it is scanned.
type postgresRow struct {
	session *postgresSession
	query   string
	args    []any
}

func (r postgresRow) Scan(dest ...any) error {
	s := r.session
	var scanned error
	s.batch.Queue(r.query, r.args...).QueryRow(func(row pgx.Row) error {
		// That there is no row fails the query and not the batch, of which the
		// driver would forget all that it has prepared.
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

// flush sends what was gathered and waits for the answers.
func (s *postgresSession) flush() error {
	batch := s.batch
	s.batch = &pgx.Batch{}
	err := s.conn.SendBatch(s.ctx, batch).Close()
	if err != nil && s.ctx.Err() != nil {
		return fmt.Errorf("%w: no answer within %s (%w)", ErrUnavailable, txTimeout, err)
	}
	return translateError(err)
}

// errCommitUnknown says that a commit was sent and its answer lost.
var errCommitUnknown = errors.New("whether the change was made is not known")

// notifyCommit says up to where the log goes now, and which server says it.
const notifyCommit = `SELECT pg_notify($1, last || ' ' || $2) FROM log WHERE id = 1`

// commit numbers the events, appends them to the log, announces them and ends
// the transaction, in one message: whoever holds the log's row makes all others
// wait.
func (s *postgresSession) commit(events []activity.Event) error {
	if s.id.number == "" { // without it nobody could find out whether the commit was made
		if err := s.flush(); err != nil {
			return err
		}
	}
	var last int64
	if n := len(events); n > 0 {
		s.batch.Queue(reserveSeqs, n).QueryRow(func(r pgx.Row) error { return r.Scan(&last) })
		for i, e := range events {
			s.batch.Queue(insertEvent, eventArgs(e, i, n)...)
		}
		s.batch.Queue(notifyCommit, s.schema.channel(), s.schema.server)
	}
	s.batch.Queue(`COMMIT`)
	err := s.flush()
	if err == nil {
		numberEvents(events, last)
		return nil
	}
	// A fatal one may have come after the commit.
	if foreign, ok := errors.AsType[*pgconn.PgError](err); ok && foreign.SeverityUnlocalized == "ERROR" {
		return err
	}
	return fmt.Errorf("%w: %w", errCommitUnknown, err)
}

// rollback ends a transaction that is open. When that fails the connection is
// lost, and the server undoes what has none.
func (s *postgresSession) rollback() {
	const idle = 'I'
	if s.conn.IsClosed() || s.conn.PgConn().TxStatus() == idle {
		return
	}
	if _, err := s.conn.Exec(s.ctx, `ROLLBACK`); err != nil {
		_ = s.conn.Close(s.ctx)
	}
}
