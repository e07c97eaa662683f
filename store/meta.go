package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

const (
	selectMeta = `SELECT value FROM meta WHERE key = $1`
	putMeta    = `INSERT INTO meta (key, value) VALUES ($1, $2)
		ON CONFLICT (key) DO UPDATE SET value = excluded.value`
)

// Meta is a value that this installation remembers about itself, empty when it
// has none of that key.
func (db *DB) Meta(ctx context.Context, key string) (string, error) {
	value, err := one(ctx, db, scanText, selectMeta, key)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read meta %s: %w", key, err)
	}
	return value, nil
}

// SetMeta sets such a value.
func (db *DB) SetMeta(ctx context.Context, key, value string) error {
	err := db.writer.do(ctx, func(t *tx) error { return t.later(putMeta, key, value) })
	if err != nil {
		return fmt.Errorf("set meta %s: %w", key, err)
	}
	return nil
}
