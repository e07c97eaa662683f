package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

const (
	selectMeta = `SELECT value FROM meta WHERE key = $1`
	addMeta    = `INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING`
	putMeta    = `INSERT INTO meta (key, value) VALUES ($1, $2)
		ON CONFLICT (key) DO UPDATE SET value = excluded.value`
)

// Meta returns a value that this installation stores about itself, or "" if
// there is none for the key.
func (db *DB) Meta(ctx context.Context, key string) (string, error) {
	value, err := queryRow(ctx, db, scanText, selectMeta, key)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read meta %s: %w", key, err)
	}
	return value, nil
}

// MetaOr returns such a value, and sets it to the given one if there is none.
// Concurrent callers all get the same value.
func (db *DB) MetaOr(ctx context.Context, key, fresh string) (value string, err error) {
	err = db.writer.update(ctx, func(t *tx) error {
		if err := t.execLater(addMeta, key, fresh); err != nil {
			return err
		}
		value, err = scanText(t.query(selectMeta, key))
		return translateError(err)
	})
	if err != nil {
		return "", fmt.Errorf("read or set meta %s: %w", key, err)
	}
	return value, nil
}

// SetMeta sets such a value.
func (db *DB) SetMeta(ctx context.Context, key, value string) error {
	err := db.writer.update(ctx, func(t *tx) error { return t.execLater(putMeta, key, value) })
	if err != nil {
		return fmt.Errorf("set meta %s: %w", key, err)
	}
	return nil
}
