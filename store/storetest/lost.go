package storetest

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"
)

// LoseWorkload removes the records of a workload from a SQLite database that is in
// use, but not those of its containers: as the removal did while an older server added
// a container.
func LoseWorkload(t testing.TB, path, id string) {
	t.Helper()
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	defer db.Close() //nolint:errcheck // every statement is committed
	for _, query := range []string{
		`DELETE FROM workloads WHERE id = $1`, `DELETE FROM revisions WHERE workload = $1`, `DELETE FROM files WHERE workload = $1`,
	} {
		_, err := db.ExecContext(t.Context(), query, id)
		require.NoError(t, err)
	}
}
