package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/pool"
)

// followedFilesKey is the key of the record of the followed directory, which is a
// value that the installation stores about itself.
const followedFilesKey = "followed_files"

// FollowedFiles returns what the leader has found in the directory that it follows.
func (db *DB) FollowedFiles(ctx context.Context) (pool.FollowedFiles, error) {
	text, err := db.Meta(ctx, followedFilesKey)
	if err != nil {
		return pool.FollowedFiles{}, err
	}
	return decodeFollowedFiles(text)
}

// UpdateFollowedFiles changes that record, and writes the events that set returns.
func (db *DB) UpdateFollowedFiles(ctx context.Context, set func(*pool.FollowedFiles) []activity.Event) error {
	err := db.writer.update(ctx, func(t *tx) error {
		text, err := scanText(t.query(selectMeta, followedFilesKey))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return translateError(err)
		}
		f, err := decodeFollowedFiles(text)
		if err != nil {
			return err
		}
		events := set(&f)
		value, err := json.Marshal(f)
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		if string(value) == text {
			return nil
		}
		if err := t.addEvents(events...); err != nil {
			return err
		}
		return t.execLater(putMeta, followedFilesKey, string(value))
	})
	if err != nil {
		return fmt.Errorf("record the workload files: %w", err)
	}
	return nil
}

func decodeFollowedFiles(text string) (f pool.FollowedFiles, err error) {
	if text == "" {
		return f, nil
	}
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return f, fmt.Errorf("read the record of workload files: %w", err)
	}
	return f, nil
}
