package store

import (
	"context"
	"fmt"
	"time"

	"github.com/pressly/goose/v3"
)

// Info is what there is to know of a database.
type Info struct {
	Kind    string // SQLite or PostgreSQL
	Version string // of SQLite, or of the server
	Schema  int64  // of the tables
	Bytes   int64  // on the disk, without what is not copied back yet
}

// infoQueries are the questions that each kind of database understands.
var infoQueries = map[goose.Dialect]struct{ kind, query string }{
	goose.DialectSQLite3: {"SQLite", `SELECT sqlite_version(), (SELECT max(version_id) FROM goose_db_version),
		(SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size())`},
	goose.DialectPostgres: {"PostgreSQL", `SELECT current_setting('server_version'), (SELECT max(version_id) FROM goose_db_version),
		pg_database_size(current_database())`},
}

// Info tells of the database.
func (db *DB) Info(ctx context.Context) (Info, error) {
	ask := infoQueries[db.dialect.goose]
	a, err := queryRow(ctx, db, func(r row) (a Info, err error) {
		err = r.Scan(&a.Version, &a.Schema, &a.Bytes)
		return a, err
	}, ask.query)
	if err != nil {
		return a, fmt.Errorf("ask the database about itself: %w", err)
	}
	a.Kind = ask.kind
	return a, nil
}

const countLiveReplicas = `SELECT count(*) FROM replicas WHERE expires_at > $1`

// CountLive is how many servers have said lately that they use the database.
func (db *DB) CountLive(ctx context.Context) (int64, error) {
	n, err := queryRow(ctx, db, scanNumber, countLiveReplicas, toNanos(time.Now()))
	if err != nil {
		return n, fmt.Errorf("count the servers that use the database: %w", err)
	}
	return n, nil
}
