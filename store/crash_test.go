package store_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/store/storetest"
)

// A kill at any moment loses nothing that was answered.
func TestSQLiteCrash(t *testing.T) {
	storetest.Crash(t,
		func(t *testing.T, dir string) storetest.Store { return openIn(t, dir) },
		func(t *testing.T, dir string) {
			db, err := sql.Open("sqlite", filepath.Join(dir, "data", "hostler.db"))
			require.NoError(t, err)
			defer db.Close() //nolint:errcheck // it was only read
			var verdict string
			require.NoError(t, db.QueryRow(`PRAGMA integrity_check`).Scan(&verdict))
			require.Equal(t, "ok", verdict)
		})
}
