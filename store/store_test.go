package store_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/storetest"
)

// SQLite keeps the contract.
func TestSQLite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store { return openIn(t, t.TempDir()) })
}

func openIn(t *testing.T, dir string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(dir, "data", "hostler.db"))
	require.NoError(t, err)
	return db
}
