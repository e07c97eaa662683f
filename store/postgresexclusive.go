package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// lockPostgres keeps a connection that holds a lock. The server gives the lock
// back when the connection ends, however it ends. There is no fence: a server
// of ours that loses this connection goes on, and another one may start. So it
// keeps a second one from being started by mistake, and no more.
func (db *DB) lockPostgres(ctx context.Context, config *pgx.ConnConfig, p schemaRef) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return translateError(err)
	}
	db.closers = append(db.closers, func() error { return conn.Close(context.Background()) })
	var taken bool
	if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, p.key("alone", "")).Scan(&taken); err != nil {
		return fmt.Errorf("lock the database: %w", translateError(err))
	}
	if !taken {
		return ErrInUse
	}
	return nil
}
