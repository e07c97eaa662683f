package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// unlockTimeout bounds the release of the lock, for a database that does not answer.
const unlockTimeout = time.Second

// lockPostgres opens a connection that holds a lock. The database releases the
// lock when the connection ends, however it ends. There is no fence: a server
// that loses this connection continues, and another one may start. The lock
// only prevents that a second server is started by mistake.
func (db *DB) lockPostgres(ctx context.Context, config *pgx.ConnConfig, p schemaRef) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return translateError(err)
	}
	db.closers = append(db.closers, func() error {
		// The database notices the end of a connection a little later, and a server
		// that is started at once would be refused.
		ctx, cancel := context.WithTimeout(context.Background(), unlockTimeout)
		defer cancel()
		_, _ = conn.Exec(ctx, `SELECT pg_advisory_unlock_all()`)
		return conn.Close(context.Background())
	})
	var taken bool
	if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, p.key("alone", "")).Scan(&taken); err != nil {
		return fmt.Errorf("lock the database: %w", translateError(err))
	}
	if !taken {
		return ErrInUse
	}
	return nil
}
