package store_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/postgrestest"
)

// Each kind of database returns its version, schema and size.
func TestDatabaseInfo(t *testing.T) {
	for kind, dsn := range map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return filepath.Join(t.TempDir(), "hostler.db") },
		"PostgreSQL": func(t *testing.T) string { return postgrestest.Schema(t) },
	} {
		t.Run(kind, func(t *testing.T) {
			db, err := store.Open(t.Context(), dsn(t))
			require.NoError(t, err)
			about, err := db.Info(t.Context())
			require.NoError(t, err)
			require.Equal(t, kind, about.Kind)
			require.NotEmpty(t, about.Version)
			require.NotZero(t, about.Schema)
			require.NotZero(t, about.Bytes)
			servers, err := db.CountLive(t.Context())
			require.NoError(t, err)
			require.Zero(t, servers)
			require.NoError(t, db.Close())
		})
	}
}
