package snapshot_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// The contract, with a bucket in memory.
func TestMemoryContract(t *testing.T) {
	t.Parallel()
	snapshottest.Run(t, snapshottest.NewMemory())
}

// The contract, with a directory. No other user can read it, and no partial
// file stays.
func TestDirContract(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	snapshottest.Run(t, openDirBucket(t, dir))
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, name)
		require.NotContains(t, name, ".part-")
		return nil
	})
	require.NoError(t, err)
}

func openDirBucket(t *testing.T, dir string) snapshot.Bucket {
	t.Helper()
	sinks := snapshot.NewSinks(snapshot.PathPolicy{State: dir}, nil)
	t.Cleanup(func() { require.NoError(t, sinks.Close()) })
	b, err := sinks.BucketOf(t.Context(), synced(t, ""))
	require.NoError(t, err)
	return b
}

// Neither keys nor links lead out of the directory.
func TestDirCannotBeEscaped(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(above, "secret"), []byte("x"), 0o600))
	b := openDirBucket(t, filepath.Join(above, "state"))
	require.NoError(t, b.Put(t.Context(), "in", strings.NewReader("")))
	require.NoError(t, os.Symlink("../secret", filepath.Join(above, "state", "link")))
	require.NoError(t, os.Symlink("..", filepath.Join(above, "state", "up")))
	for _, key := range []string{"../secret", "link", "up/secret", "/etc/passwd"} {
		_, err := b.Get(t.Context(), key)
		require.Error(t, err, key)
	}
	require.Error(t, b.Put(t.Context(), "../out", strings.NewReader("")))
	require.Error(t, b.Put(t.Context(), "up/out", strings.NewReader("")))
	var keys []string
	require.NoError(t, b.List(t.Context(), "", func(o snapshot.Object) error { keys = append(keys, o.Key); return nil }))
	require.Equal(t, []string{"in"}, keys)
}
