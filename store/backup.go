package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ErrFileNotFound says that there is no database file to be copied.
var ErrNoDatabase = errors.New("there is no database")

// Backup copies the SQLite database at path into a new file, whole and of one
// moment, also while a server uses it and writes. The copy appears under its
// name only when it is complete and on the disk, readable by its owner only: it
// holds the installation's secret. A file that is there is os.ErrExist.
func Backup(ctx context.Context, path, dest string) error {
	if err := backup(ctx, path, dest); err != nil {
		return fmt.Errorf("copy database %s into %s: %w", path, dest, translateError(err))
	}
	return nil
}

func backup(ctx context.Context, path, dest string) (err error) {
	if _, err := os.Stat(path); err != nil {
		return errors.Join(ErrNoDatabase, err)
	}
	if _, err := os.Lstat(dest); !errors.Is(err, os.ErrNotExist) {
		return errors.Join(os.ErrExist, err)
	}
	db, err := sql.Open("sqlite", uri(path, []string{"mode=rw"}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	// SQLite makes the file with the rights that the process leaves to
	// everybody: within a folder of ours nobody else can open it.
	folder, err := os.MkdirTemp(filepath.Dir(dest), ".backup-")
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
	if err := syncToDisk(part); err != nil {
		return err
	}
	if err := os.Rename(part, dest); err != nil {
		return err
	}
	return syncToDisk(filepath.Dir(dest))
}

// syncToDisk has a file, or the names in a folder, written to the disk.
func syncToDisk(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Restore puts a copy in the place of the SQLite database at path. What was
// there stays beside it, under the name that is returned. The copy stays as it
// is. With a server that uses the database it is ErrInUse.
func Restore(ctx context.Context, from, path string) (replaced string, err error) {
	replaced, err = restore(ctx, from, path)
	if err != nil {
		return replaced, fmt.Errorf("restore database %s from %s: %w", path, from, translateError(err))
	}
	return replaced, nil
}

func restore(ctx context.Context, from, path string) (replaced string, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	now := time.Now().UTC().Format("20060102T150405.000")
	fresh := path + ".restoring-" + now
	if err := backup(ctx, from, fresh); err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		replaced = path + ".replaced-" + now
		if err := moveAside(ctx, path, replaced); err != nil {
			return "", errors.Join(err, os.Remove(fresh))
		}
	}
	if err := os.Rename(fresh, path); err != nil {
		return replaced, err
	}
	return replaced, syncToDisk(filepath.Dir(path))
}

// sideFiles are the files that SQLite keeps beside a database while it is open, and
// leaves behind when its process is killed.
var sideFiles = []string{"-wal", "-shm"}

// moveAside gives the database at path a second name and leaves it without side
// files: those would be taken for a new file's. Whoever is killed in it, or
// before the new file is there, leaves the old one whole.
func moveAside(ctx context.Context, path, name string) error {
	for _, side := range append([]string{""}, sideFiles...) {
		if err := os.Link(path+side, name+side); err != nil && (side == "" || !errors.Is(err, os.ErrNotExist)) {
			return err
		}
	}
	if err := syncToDisk(filepath.Dir(path)); err != nil {
		return err
	}
	names := []string{path}
	// A file that cannot be read any more is what many a copy is put back for:
	// that one keeps its side files, as they are.
	if checkpoint(ctx, path) == nil {
		names = append(names, name)
	}
	for _, n := range names {
		for _, side := range sideFiles {
			if err := os.Remove(n + side); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return syncToDisk(filepath.Dir(path))
}

// checkpoint writes what is in the side files of a database into its file.
func checkpoint(ctx context.Context, path string) (err error) {
	db, err := sql.Open("sqlite", uri(path, []string{"mode=rw"}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var busy, log, moved int64
	if err := db.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &log, &moved); err != nil {
		return err
	}
	if busy != 0 {
		return ErrInUse
	}
	return nil
}
