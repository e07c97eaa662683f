package dbtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/store"
)

// A copy is what a server makes of a file that does not exist, byte for byte.
func TestCopyEqualsNewDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hostler.db")
	db, err := store.Open(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	got, err := os.ReadFile(Path(t))
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, Open(t).SetMeta(t.Context(), "k", "v"))
	value, err := Open(t).Meta(t.Context(), "k")
	require.NoError(t, err)
	require.Empty(t, value, "each test has its own")
}
