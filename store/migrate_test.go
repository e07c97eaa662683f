package store

import (
	"context"
	"database/sql"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
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
				require.NoError(t, db.PutWorkload(t.Context(), pool.Record{ID: "w"}))
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

// The records of hooks keep their results when the columns of commands become
// one column.
func TestMigratesRuns(t *testing.T) {
	code := 137
	killed := hooks.Detail{ExitCode: &code, Signal: "SIGKILL", TimedOut: true, Killed: true, Leaked: 2}
	for name, c := range migrated {
		t.Run(name, func(t *testing.T) {
			dsn := c.dsn(t)
			raw := c.raw(t, dsn)
			p, err := newMigrations(raw, c.dialect)
			require.NoError(t, err)
			_, err = p.UpTo(t.Context(), 9)
			require.NoError(t, err)
			_, err = raw.ExecContext(t.Context(), `INSERT INTO runs (id, attempt, point, hook, place, action, command, workload, container, claim, tenant,
				state, exit_code, signal, timed_out, killed, leaked, stdout, stderr, error, started_at, ended_at, duration) VALUES
				('a', 1, 'post_claim', 'h', 0, 'exec', '["x"]', 'w', 'k', 'c', 'ada', 'timed_out', 137, 'SIGKILL', 1, 1, 2, '{"head":"out","total":3}', '{}', '', 1, 2, 1.5),
				('b', 1, 'post_claim', 'h', 0, 'exec', '["x"]', 'w', 'k', 'c', 'ada', 'running', NULL, '', 0, 0, 0, '{}', '{}', '', 1, 0, 0)`)
			require.NoError(t, err)
			require.NoError(t, raw.Close())
			db, err := Open(t.Context(), dsn)
			require.NoError(t, err)
			runs, err := db.Runs(t.Context(), hooks.RunFilter{})
			require.NoError(t, err)
			require.Len(t, runs, 2)
			require.Equal(t, killed, runs[0].Detail)
			require.Equal(t, "out", runs[0].Stdout.Head)
			require.Equal(t, hooks.Detail{}, runs[1].Detail)
			require.Equal(t, hooks.KindCommand, runs[1].Kind)
			require.Equal(t, hooks.Running, runs[1].State)
			require.NoError(t, db.Close())
		})
	}
}

// Every migration has what each database calls its types, and nothing that is
// for the other one.
func TestMigrationFiles(t *testing.T) {
	for name, c := range migrated {
		t.Run(name, func(t *testing.T) {
			files, err := migrationFiles(c.dialect)
			require.NoError(t, err)
			all, err := fs.Glob(files, "*.sql")
			require.NoError(t, err)
			require.NotEmpty(t, all)
			foreign := map[string]*regexp.Regexp{
				"sqlite":   regexp.MustCompile(`\{\{|COLLATE|BYTEA|DOUBLE PRECISION|fillfactor|CONSTRAINT`),
				"postgres": regexp.MustCompile(`\{\{|BLOB|REAL|INTEGER PRIMARY KEY|json\(`),
			}
			for _, file := range all {
				text, err := fs.ReadFile(files, file)
				require.NoError(t, err)
				require.NotRegexp(t, foreign[name], string(text), file)
			}
		})
	}
}
