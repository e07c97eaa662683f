package store

import (
	"context"
	"database/sql"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store/postgrestest"
)

// A database that any earlier version has left is brought up to date, with
// what was in it.
func TestMigratesFromEveryVersion(t *testing.T) {
	for name, c := range map[string]struct {
		dialect dialect
		dsn     func(t *testing.T) string
		raw     func(t *testing.T, dsn string) *sql.DB
	}{
		"sqlite": {sqliteDialect,
			func(t *testing.T) string { return filepath.Join(t.TempDir(), "hostler.db") },
			func(t *testing.T, dsn string) *sql.DB {
				db, err := sql.Open("sqlite", uri(dsn, writing))
				require.NoError(t, err)
				return db
			}},
		"postgres": {postgresDialect,
			func(t *testing.T) string { return postgrestest.Schema(t) },
			func(t *testing.T, dsn string) *sql.DB {
				config, err := pgx.ParseConfig(dsn)
				require.NoError(t, err)
				return stdlib.OpenDB(*config)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := fs.Sub(migrations, c.dialect.migrations)
			require.NoError(t, err)
			all, err := fs.Glob(files, "*.sql")
			require.NoError(t, err)
			for version := range int64(len(all)) {
				dsn := c.dsn(t)
				left(t, c.raw(t, dsn), c.dialect, files, version+1)
				db, err := Open(t.Context(), dsn)
				require.NoError(t, err, "from version %d", version+1)
				kept, err := db.Meta(t.Context(), "kept")
				require.NoError(t, err)
				require.Equal(t, "yes", kept)
				require.NoError(t, db.AddContainer(t.Context(), pool.Container{ID: "k", Workload: "w"}, 1))
				require.NoError(t, db.Close())
			}
		})
	}
}

// left makes a database as a version has left it, and closes it.
func left(t *testing.T, db *sql.DB, d dialect, files fs.FS, version int64) {
	t.Helper()
	p, err := goose.NewProvider(d.goose, db, files, goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	require.NoError(t, err)
	_, err = p.UpTo(context.WithoutCancel(t.Context()), version)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), putMeta, "kept", "yes")
	require.NoError(t, err)
	require.NoError(t, db.Close())
}
