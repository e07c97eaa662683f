package store

import (
	"context"
	"fmt"
)

// Info describes a database.
type Info struct {
	Kind    string // SQLite or PostgreSQL
	Version string // of SQLite, or of the server
	Schema  int64  // the number of the schema
	Bytes   int64  // on the disk, without the write-ahead log
}

// Info returns the kind, version and size of the database.
func (db *DB) Info(ctx context.Context) (Info, error) {
	a, err := queryRow(ctx, db, func(r row) (a Info, err error) {
		err = r.Scan(&a.Version, &a.Bytes)
		return a, err
	}, db.dialect.info)
	if err != nil {
		return a, fmt.Errorf("read the database's version and size: %w", err)
	}
	a.Kind, a.Schema = db.dialect.kind, schemaNumber // Open accepts no other
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
