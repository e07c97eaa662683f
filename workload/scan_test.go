package workload

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A scan has each invalid file with the workload that it would change, also when
// nothing has changed since the last one.
func TestScanResult(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "a.yaml", workloadOf("x", "one"))
	writeFile(t, dir, "b.yaml", workloadOf("y", "one"))
	var d Directory
	_, err := d.scan(dir)
	require.NoError(t, err)
	require.Empty(t, d.result().Invalid)
	writeFile(t, dir, "b.yaml", "id: [\n")
	writeFile(t, dir, "c.yaml", workloadOf("x", "two"))
	for range 2 {
		_, err = d.scan(dir)
		require.NoError(t, err)
		got := d.result()
		require.Len(t, got.Files, 3)
		require.Equal(t, []string{"b.yaml broken", "c.yaml same id"}, describe(got.Invalid))
		require.Equal(t, []string{"y", "x"}, []string{got.Invalid[0].ID, got.Invalid[1].ID})
		require.Equal(t, filepath.Join(dir, "c.yaml"), got.Invalid[1].File)
	}
}
