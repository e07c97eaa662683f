package store

import (
	"context"
	"database/sql"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store/postgrestest"
)

// migrated lists the databases whose schemas are migrated.
var migrated = map[string]struct {
	dialect dialect
	dsn     func(t *testing.T) string
	raw     func(t *testing.T, dsn string) *sql.DB
}{
	"sqlite": {sqliteDialect,
		func(t *testing.T) string { return filepath.Join(t.TempDir(), "hostler.db") },
		func(t *testing.T, dsn string) *sql.DB {
			db, err := sql.Open("sqlite", uri(dsn, writerSettings))
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
}

// A database of any earlier version is migrated, with its contents.
func TestMigratesFromEveryVersion(t *testing.T) {
	for name, c := range migrated {
		t.Run(name, func(t *testing.T) {
			all, err := fs.Glob(migrations, "migrations/*.sql")
			require.NoError(t, err)
			for version := range int64(len(all)) {
				dsn := c.dsn(t)
				writeOldDatabase(t, c.raw(t, dsn), c.dialect, version+1)
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

// writeOldDatabase creates a database as a version leaves it, and closes it.
func writeOldDatabase(t *testing.T, db *sql.DB, d dialect, version int64) {
	t.Helper()
	p, err := newMigrations(db, d)
	require.NoError(t, err)
	_, err = p.UpTo(context.WithoutCancel(t.Context()), version)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), putMeta, "kept", "yes")
	require.NoError(t, err)
	require.NoError(t, db.Close())
}

// Renamed values are migrated, and the constraints on them still hold.
func TestMigratesRenamedValues(t *testing.T) {
	for name, c := range migrated {
		t.Run(name, func(t *testing.T) {
			dsn := c.dsn(t)
			raw := c.raw(t, dsn)
			p, err := newMigrations(raw, c.dialect)
			require.NoError(t, err)
			_, err = p.UpTo(t.Context(), 8)
			require.NoError(t, err)
			const insert = `INSERT INTO containers (id, workload, revision, state, health, tenant, claim, endpoint, reason, snapshot, created_at, changed_at, owner, protocol) VALUES `
			_, err = raw.ExecContext(t.Context(), insert+`('old', 'w', 'r', 'gone', '', '', '', '{}', '', '', 1, 1, 'o', 3), ('held', 'w', 'r', 'claimed', 'dead', 'ada', 'c', '{}', '', 's', 1, 2, 'o', 3)`)
			require.NoError(t, err)
			require.NoError(t, raw.Close())

			db, err := Open(t.Context(), dsn)
			require.NoError(t, err)
			held, err := db.Container(t.Context(), "held")
			require.NoError(t, err)
			require.Equal(t, pool.Exited, held.Health)
			require.Equal(t, "c ada s 3", strings.Join([]string{held.Claim, held.Tenant, held.Snapshot, strconv.Itoa(held.Protocol)}, " "))
			old, err := db.Container(t.Context(), "old")
			require.NoError(t, err)
			require.Equal(t, pool.Destroyed, old.State)
			require.NoError(t, db.Close())
			raw = c.raw(t, dsn)
			defer raw.Close()
			for _, wrong := range []string{
				`('a', 'w', 'r', 'gone', '', '', '', '', '', '', 1, 1, '', 0)`,
				`('a', 'w', 'r', 'idle', 'dead', '', '', '', '', '', 1, 1, '', 0)`,
				`('a', 'w', 'r', 'destroyed', '', '', 'c2', '', '', '', 1, 1, '', 0)`,
				`('a', 'w', 'r', 'claimed', '', '', 'c2', '', '', '', 1, 1, '', 0)`,
				`('a', 'w', 'r', 'claimed', '', 'ada', 'c', '', '', '', 1, 1, '', 0)`,
			} {
				_, err := raw.ExecContext(t.Context(), insert+wrong)
				require.Error(t, err, wrong)
			}
		})
	}
}
