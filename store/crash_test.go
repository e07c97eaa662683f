package store_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/store/storetest"
)

// A kill at any moment loses no change that was acknowledged.
func TestSQLiteCrash(t *testing.T) {
	storetest.Crash(t,
		func(t *testing.T, dir string) storetest.Store { return openIn(t, dir) },
		func(t *testing.T, dir string) {
			db, err := sql.Open("sqlite", filepath.Join(dir, "data", "hostler.db"))
			require.NoError(t, err)
			defer db.Close() //nolint:errcheck // it only reads
			var result string
			require.NoError(t, db.QueryRow(`PRAGMA integrity_check`).Scan(&result))
			require.Equal(t, "ok", result)
		})
}
