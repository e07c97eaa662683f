package store

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// How SQLite is used.
const (
	// minSQLiteVersion is the first version without a bug that could corrupt a
	// database when its write-ahead log was reset.
	minSQLiteVersion = "3.51.3"
	// busyTimeout is how long to wait for another program, such as a backup,
	// that has locked the database.
	busyTimeout = 5 * time.Second
	// sqliteReaders is the number of concurrent reads.
	sqliteReaders = 4
)

var sqliteDialect = dialect{
	kind: "SQLite", types: sqlTypes{Key: "TEXT", Int: "INTEGER", Blob: "BLOB", Real: "REAL", SQLite: true},
	hasTables:    `SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'meta')`,
	info:         `SELECT sqlite_version(), (SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size())`,
	replace:      "move the file and its side files away",
	singleServer: true,
}

// openSQLite opens the file. When it fails, closeAll closes what it has opened.
func (db *DB) openSQLite(ctx context.Context, path string) error {
	db.dialect = sqliteDialect
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return err
	}
	db.closers = append(db.closers, lock.Close)
	if err := createPrivate(path); err != nil {
		return err
	}
	write, err := sql.Open("sqlite", uri(path, writerSettings))
	if err != nil {
		return err
	}
	db.closers = append(db.closers, write.Close)
	write.SetMaxOpenConns(1)
	if err := checkVersion(ctx, write); err != nil {
		return err
	}
	if err := prepareSchema(ctx, write, db.dialect, ""); err != nil {
		return err
	}
	if db.read.DB, err = sql.Open("sqlite", uri(path, readerSettings)); err != nil {
		return err
	}
	db.closers = append(db.closers, db.read.Close)
	db.read.SetMaxOpenConns(sqliteReaders)
	db.read.SetMaxIdleConns(sqliteReaders)
	if err := db.primeBuffer(ctx); err != nil {
		return err
	}
	// Only this process writes: all events are those that it commits.
	db.writer, err = startSQLiteWriter(ctx, write, &db.self, db.buffer.add)
	db.leases = db.writer
	return err
}

// writerSettings and readerSettings are the settings of the two kinds of
// connections. With synchronous FULL every commit is on disk before it returns.
// A larger write-ahead log (pages of 4 KiB) is checkpointed less often.
var (
	writerSettings = []string{
		"_txlock=immediate",
		pragma("journal_mode", "WAL"), pragma("synchronous", "FULL"),
		pragma("wal_autocheckpoint", "4000"), pragma("journal_size_limit", "67108864"),
		pragma("cache_size", "-16000"),
	}
	readerSettings = []string{
		"mode=ro", pragma("query_only", "1"), pragma("cache_size", "-4000"),
	}
)

func pragma(name, value string) string { return "_pragma=" + name + "(" + value + ")" }

// fileURL returns SQLite's URL of a file. Without OmitHost the first part of a relative
// path would be a host.
func fileURL(path string) *url.URL {
	return &url.URL{Scheme: "file", OmitHost: true, Path: filepath.Clean(path)}
}

// uri returns the driver's name for the file with settings.
func uri(path string, settings []string) string {
	u := fileURL(path)
	all := append([]string{
		pragma("busy_timeout", fmt.Sprint(busyTimeout.Milliseconds())), pragma("foreign_keys", "1"),
	}, settings...)
	u.RawQuery = strings.Join(all, "&")
	return u.String()
}

// createPrivate creates the file, readable by its owner only, because it holds
// the output of hooks. SQLite gives its side files the same mode.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// checkVersion refuses an SQLite version that may damage the file.
func checkVersion(ctx context.Context, db *sql.DB) error {
	var version string
	if err := db.QueryRowContext(ctx, `SELECT sqlite_version()`).Scan(&version); err != nil {
		return fmt.Errorf("read SQLite's version: %w", err)
	}
	if isOlder(version, minSQLiteVersion) {
		return fmt.Errorf("SQLite %s may damage the database: version %s or newer is required", version, minSQLiteVersion)
	}
	return nil
}

// isOlder reports whether version a is older than b; both are three numbers.
func isOlder(a, b string) bool {
	var x, y [3]int
	_, errA := fmt.Sscanf(a, "%d.%d.%d", &x[0], &x[1], &x[2])
	_, errB := fmt.Sscanf(b, "%d.%d.%d", &y[0], &y[1], &y[2])
	if errA != nil || errB != nil {
		return true // an unreadable version counts as older
	}
	for i := range x {
		if x[i] != y[i] {
			return x[i] < y[i]
		}
	}
	return false
}
