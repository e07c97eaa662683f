package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/hostler/hostler/activity"
)

// How SQLite is used.
const (
	// oldest is the first SQLite without a fault that could corrupt a database
	// when its write-ahead log was reset.
	oldest = "3.51.3"
	// busy is how long to wait for another program, such as a backup, that
	// holds the database.
	busy = 5 * time.Second
	// readers is how many reads go on at once.
	readers = 4
)

// DB is the store. It is safe for many goroutines.
type DB struct {
	lock   io.Closer
	write  *sql.DB // one connection, the writer's
	read   *sql.DB
	writer *writer
	tail   *tail
}

// Open opens the database, makes it when there is none, and brings its schema
// up to date. The dsn is the path of a file, or "sqlite:" and the path; its
// folder is made. Only one process can have it open: ErrInUse. A schema from
// the future is ErrNewer.
func Open(ctx context.Context, dsn string) (*DB, error) {
	path := strings.TrimPrefix(dsn, "sqlite:")
	if scheme, _, found := strings.Cut(path, "://"); found {
		return nil, fmt.Errorf("open database: %q is no kind of store", scheme)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", dsn, err)
	}
	db, err := open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, translate(err))
	}
	return db, nil
}

func open(ctx context.Context, path string) (_ *DB, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	db := &DB{}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.closeFiles())
		}
	}()
	if db.lock, err = lock(path + ".lock"); err != nil {
		return nil, err
	}
	if err := private(path); err != nil {
		return nil, err
	}
	if db.write, err = sql.Open("sqlite", uri(path, writing)); err != nil {
		return nil, err
	}
	db.write.SetMaxOpenConns(1)
	if err := checkVersion(ctx, db.write); err != nil {
		return nil, err
	}
	if err := migrate(ctx, db.write); err != nil {
		return nil, err
	}
	if db.read, err = sql.Open("sqlite", uri(path, reading)); err != nil {
		return nil, err
	}
	db.read.SetMaxOpenConns(readers)
	db.read.SetMaxIdleConns(readers)

	db.tail = newTail()
	if err := db.warm(ctx); err != nil {
		return nil, err
	}
	db.writer, err = startWriter(ctx, db.write, db.tail.add)
	return db, err
}

// Close finishes the writes that are queued, refuses later ones with ErrClosed
// and gives the file back. Closing twice is nil.
func (db *DB) Close() error {
	err := db.writer.close()
	db.tail.close()
	return errors.Join(err, db.closeFiles())
}

// closeFiles closes what has been opened, the lock last.
func (db *DB) closeFiles() error {
	var errs []error
	for _, c := range []*sql.DB{db.read, db.write} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	if db.lock != nil {
		errs = append(errs, db.lock.Close())
		db.lock = nil
	}
	return errors.Join(errs...)
}

// writing and reading are the settings of the two kinds of connections.
// synchronous FULL has every commit on disk before it is answered. A larger
// write-ahead log (pages of 4 KiB) is copied back less often.
var (
	writing = []string{
		"_txlock=immediate",
		pragma("journal_mode", "WAL"), pragma("synchronous", "FULL"),
		pragma("wal_autocheckpoint", "4000"), pragma("journal_size_limit", "67108864"),
		pragma("cache_size", "-16000"),
	}
	reading = []string{
		"mode=ro", pragma("query_only", "1"), pragma("cache_size", "-4000"),
	}
)

func pragma(name, value string) string { return "_pragma=" + name + "(" + value + ")" }

// uri is the driver's name for the file with settings.
func uri(path string, settings []string) string {
	u := url.URL{Scheme: "file", Path: path}
	all := append([]string{
		pragma("busy_timeout", fmt.Sprint(busy.Milliseconds())), pragma("foreign_keys", "1"),
	}, settings...)
	u.RawQuery = strings.Join(all, "&")
	return u.String()
}

// private makes the file, readable by its owner only: it holds what hooks have
// printed. SQLite gives its side files the same mode.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// checkVersion refuses an SQLite that may damage the file.
func checkVersion(ctx context.Context, db *sql.DB) error {
	var version string
	if err := db.QueryRowContext(ctx, `SELECT sqlite_version()`).Scan(&version); err != nil {
		return fmt.Errorf("read SQLite's version: %w", err)
	}
	if older(version, oldest) {
		return fmt.Errorf("SQLite %s may damage the database: %s is the oldest that does not", version, oldest)
	}
	return nil
}

// older compares versions of three numbers.
func older(a, b string) bool {
	var x, y [3]int
	_, errA := fmt.Sscanf(a, "%d.%d.%d", &x[0], &x[1], &x[2])
	_, errB := fmt.Sscanf(b, "%d.%d.%d", &y[0], &y[1], &y[2])
	if errA != nil || errB != nil {
		return true // what cannot be read is not trusted
	}
	for i := range x {
		if x[i] != y[i] {
			return x[i] < y[i]
		}
	}
	return false
}

// warm fills the tail with the newest events of the log.
func (db *DB) warm(ctx context.Context) error {
	last, err := db.LastSeq(ctx)
	if err != nil {
		return err
	}
	after := max(0, last-tailLength)
	page, err := db.stored(ctx, activity.Filter{}, after, tailLength)
	if err != nil {
		return err
	}
	db.tail.begin(last, page.Items)
	return nil
}
