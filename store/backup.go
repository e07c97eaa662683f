package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrNoFile says that there is no database file to be copied.
var ErrNoFile = errors.New("there is no database")

// Backup copies the SQLite database at path into a new file, whole and of one
// moment, also while a server uses it and writes. The copy appears under its
// name only when it is complete and on the disk, readable by its owner only: it
// holds the installation's secret. A file that is there is os.ErrExist.
func Backup(ctx context.Context, path, into string) error {
	if err := backup(ctx, path, into); err != nil {
		return fmt.Errorf("copy database %s into %s: %w", path, into, translate(err))
	}
	return nil
}

func backup(ctx context.Context, path, into string) (err error) {
	if _, err := os.Stat(path); err != nil {
		return errors.Join(ErrNoFile, err)
	}
	if _, err := os.Lstat(into); !errors.Is(err, os.ErrNotExist) {
		return errors.Join(os.ErrExist, err)
	}
	db, err := sql.Open("sqlite", uri(path, []string{"mode=rw"}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	// SQLite makes the file with the rights that the process leaves to
	// everybody: within a folder of ours nobody else can open it.
	folder, err := os.MkdirTemp(filepath.Dir(into), ".backup-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	part := filepath.Join(folder, "hostler.db")
	if _, err := db.ExecContext(ctx, `VACUUM INTO $1`, part); err != nil {
		return err
	}
	if err := os.Chmod(part, 0o600); err != nil {
		return err
	}
	if err := flush(part); err != nil {
		return err
	}
	if err := os.Rename(part, into); err != nil {
		return err
	}
	return flush(filepath.Dir(into))
}

// flush has a file, or the names in a folder, written to the disk.
func flush(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
