package store_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/dbtest"
	"github.com/hostler/hostler/store/postgrestest"
	"github.com/hostler/hostler/store/storetest"
)

// SQLite fulfills the contract.
func TestSQLite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store { return openURL(t, dbtest.Path(t)) })
}

// PostgreSQL fulfills the same contract.
func TestPostgres(t *testing.T) {
	postgrestest.Server(t)
	storetest.Run(t, func(t *testing.T) storetest.Store { return openURL(t, postgrestest.Schema(t)) })
}

func openIn(t *testing.T, dir string) *store.DB {
	t.Helper()
	return openURL(t, filepath.Join(dir, "data", "hostler.db"))
}

func openURL(t *testing.T, url string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), url)
	require.NoError(t, err)
	return db
}
