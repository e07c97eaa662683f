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

// ErrNoDatabase indicates that there is no database file to copy.
var ErrNoDatabase = errors.New("there is no database")

// Backup copies the SQLite database at path into a new file. The copy is
// complete and consistent, also while a server uses the database and writes. It
// appears under its name only when it is complete and on the disk, and only its
// owner can read it, because it holds the installation's secret. An existing
// file is os.ErrExist.
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
	// SQLite creates the file with the permissions of the process's umask. No
	// other user can open it within a private directory.
	dir, err := os.MkdirTemp(filepath.Dir(dest), ".backup-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	part := filepath.Join(dir, "hostler.db")
	if _, err := db.ExecContext(ctx, `VACUUM INTO $1`, fileURL(part).String()); err != nil {
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

// syncToDisk flushes a file, or the entries of a directory, to the disk.
func syncToDisk(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Restore replaces the SQLite database at path with a copy of from. It keeps
// the replaced database next to it, under the name that it returns. The source
// stays unchanged. If a server uses the database, the error is ErrInUse. A copy of
// another version's database is ErrSchema.
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
	if err := checkFile(ctx, fresh); err != nil {
		return "", errors.Join(fmt.Errorf("check the copy: %w", err), os.Remove(fresh))
	}
	if _, err := os.Stat(path); err == nil {
		if err := keepGeneration(ctx, path, fresh); err != nil {
			return "", errors.Join(err, os.Remove(fresh))
		}
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

// checkFile refuses a file that is no database of this version.
func checkFile(ctx context.Context, path string) error {
	db, err := sql.Open("sqlite", uri(path, []string{"mode=ro"}))
	if err != nil {
		return err
	}
	return errors.Join(checkSchema(ctx, db, sqliteDialect), db.Close())
}

// sideFiles are the suffixes of the files that SQLite keeps next to a database
// while it is open, and leaves behind when its process is killed.
var sideFiles = []string{"-wal", "-shm"}

// moveAside gives the database at path a second name and leaves it without side
// files, because SQLite would apply those to the new file. A process that is
// killed here, or before the new file is in place, leaves the old database
// complete.
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
	// A damaged database is a common reason to restore a copy. If it cannot be
	// read, it keeps its side files unchanged.
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

// checkpoint copies the side files of a database into its main file.
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
