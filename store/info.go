package store

import (
	"context"
	"fmt"

	"github.com/pressly/goose/v3"
)

// Info describes a database.
type Info struct {
	Kind    string // SQLite or PostgreSQL
	Version string // of SQLite, or of the server
	Schema  int64  // of the tables
	Bytes   int64  // on the disk, without the write-ahead log
}

// infoQueries are the queries for Info, by kind of database.
var infoQueries = map[goose.Dialect]struct{ kind, query string }{
	goose.DialectSQLite3: {"SQLite", `SELECT sqlite_version(), (SELECT max(version_id) FROM goose_db_version),
		(SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size())`},
	goose.DialectPostgres: {"PostgreSQL", `SELECT current_setting('server_version'), (SELECT max(version_id) FROM goose_db_version),
		pg_database_size(current_database())`},
}

// Info returns the kind, version and size of the database.
func (db *DB) Info(ctx context.Context) (Info, error) {
	q := infoQueries[db.dialect.goose]
	a, err := queryRow(ctx, db, func(r row) (a Info, err error) {
		err = r.Scan(&a.Version, &a.Schema, &a.Bytes)
		return a, err
	}, q.query)
	if err != nil {
		return a, fmt.Errorf("read the database's version and size: %w", err)
	}
	a.Kind = q.kind
	return a, nil
}

const countLiveReplicas = `SELECT count(*) FROM replicas WHERE expires_at > $1`

// CountLive returns how many servers that use the database have a lease that
// has not expired.
func (db *DB) CountLive(ctx context.Context) (int64, error) {
	now, err := db.currentLeaseTime(ctx)
	if err != nil {
		return 0, err
	}
	n, err := queryRow(ctx, db, scanNumber, countLiveReplicas, toNanos(now))
	if err != nil {
		return n, fmt.Errorf("count the servers that use the database: %w", err)
	}
	return n, nil
}
