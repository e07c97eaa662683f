package store

import (
	"context"
	"fmt"
	"time"

	"github.com/pressly/goose/v3"
)

// About is what there is to know of a database.
type About struct {
	Kind    string // SQLite or PostgreSQL
	Version string // of SQLite, or of the server
	Schema  int64  // of the tables
	Bytes   int64  // on the disk, without what is not copied back yet
}

// abouts are the questions that each kind of database understands.
var abouts = map[goose.Dialect]struct{ kind, query string }{
	goose.DialectSQLite3: {"SQLite", `SELECT sqlite_version(), (SELECT max(version_id) FROM goose_db_version),
		(SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size())`},
	goose.DialectPostgres: {"PostgreSQL", `SELECT current_setting('server_version'), (SELECT max(version_id) FROM goose_db_version),
		pg_database_size(current_database())`},
}

// About tells of the database.
func (db *DB) About(ctx context.Context) (About, error) {
	ask := abouts[db.dialect.goose]
	a, err := one(ctx, db, func(r row) (a About, err error) {
		err = r.Scan(&a.Version, &a.Schema, &a.Bytes)
		return a, err
	}, ask.query)
	if err != nil {
		return a, fmt.Errorf("ask the database about itself: %w", err)
	}
	a.Kind = ask.kind
	return a, nil
}

const countServers = `SELECT count(*) FROM replicas WHERE expires_at > $1`

// Serving is how many servers have said lately that they use the database.
func (db *DB) Serving(ctx context.Context) (int64, error) {
	n, err := one(ctx, db, scanNumber, countServers, nanos(time.Now()))
	if err != nil {
		return n, fmt.Errorf("count the servers that use the database: %w", err)
	}
	return n, nil
}
