package store

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/store/postgrestest"
)

// databases are the databases, measured in the same run for comparison.
var databases = []struct {
	name    string
	dialect dialect
	foreign *regexp.Regexp // what only the schema of the other one has
	dsn     func(tb testing.TB) string
	raw     func(dsn string) (*sql.DB, error)
}{
	{
		"sqlite", sqliteDialect, regexp.MustCompile(`\{\{|COLLATE|BYTEA|DOUBLE PRECISION|fillfactor|CONSTRAINT`),
		func(tb testing.TB) string { return filepath.Join(tb.TempDir(), "hostler.db") },
		func(dsn string) (*sql.DB, error) { return sql.Open("sqlite", uri(dsn, writerSettings)) },
	},
	{
		"postgres", postgresDialect, regexp.MustCompile(`\{\{|BLOB|REAL|INTEGER PRIMARY KEY|json\(`),
		postgrestest.Schema,
		func(dsn string) (*sql.DB, error) { return sql.Open("pgx", dsn) },
	},
}

// schemas has the digest of each schema's statements by its number. A row is never
// changed: a change of the schema has a new number, so that no server uses the
// tables of another version.
var schemas = map[int]string{
	38: "a9276f0dc0511e84",
	39: "f6777d073e0d33dc",
}

func TestSchemaHasItsOwnNumber(t *testing.T) {
	comments := regexp.MustCompile(` *--.*|\n+`)
	digest := sha256.Sum256([]byte(comments.ReplaceAllString(schemaText, "\n")))
	require.Equal(t, schemas[schemaNumber], hex.EncodeToString(digest[:8]),
		"schema.sql has changed: raise schemaNumber, and add the digest with that number to schemas")
}

// The schema has what each database calls its types, and nothing that is for the
// other one.
func TestSchemaOfEachDatabase(t *testing.T) {
	for _, c := range databases {
		text, err := schemaSQL(c.dialect.types)
		require.NoError(t, err)
		require.NotRegexp(t, c.foreign, text, c.name)
	}
}

// A database with the tables of another version is refused with what to do, and
// stays as it is. So is a database of another program.
func TestOpenRefusesAnotherVersion(t *testing.T) {
	for _, c := range databases {
		t.Run(c.name, func(t *testing.T) {
			dsn := c.dsn(t)
			db, err := Open(t.Context(), dsn)
			require.NoError(t, err)
			require.NoError(t, db.SetMeta(t.Context(), "kept", "yes"))
			require.NoError(t, db.Close())
			raw, err := c.raw(dsn)
			require.NoError(t, err)
			defer raw.Close()
			exec := func(statement string, args ...any) {
				_, err := raw.ExecContext(t.Context(), statement, args...)
				require.NoError(t, err)
			}
			for _, number := range []int{schemaNumber - 1, schemaNumber + 1} {
				exec(putMeta, "schema", strconv.Itoa(number))
				_, err = Open(t.Context(), dsn)
				require.ErrorIs(t, err, ErrSchema)
				require.ErrorContains(t, err, fmt.Sprintf("it has schema %d, this program needs schema %d; start the version", number, schemaNumber))
				require.ErrorContains(t, err, c.dialect.replace)
			}
			exec(`DELETE FROM meta WHERE key = 'schema'`)
			_, err = Open(t.Context(), dsn)
			require.ErrorIs(t, err, ErrSchema)
			require.ErrorContains(t, err, "it has an older schema")

			exec(putMeta, "schema", strconv.Itoa(schemaNumber))
			db, err = Open(t.Context(), dsn)
			require.NoError(t, err)
			kept, err := db.Meta(t.Context(), "kept")
			require.NoError(t, err)
			require.Equal(t, "yes", kept)
			require.NoError(t, db.Close())

			dsn = c.dsn(t)
			foreign, err := c.raw(dsn)
			require.NoError(t, err)
			defer foreign.Close()
			_, err = foreign.ExecContext(t.Context(), `CREATE TABLE signals (n INTEGER)`)
			require.NoError(t, err)
			_, err = Open(t.Context(), dsn)
			require.ErrorContains(t, err, "create the tables")
			var exists bool
			require.NoError(t, foreign.QueryRowContext(t.Context(), c.dialect.hasTables).Scan(&exists))
			require.False(t, exists, "all tables are created, or none")
		})
	}
}
