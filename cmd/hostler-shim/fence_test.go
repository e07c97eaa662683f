package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// A number smaller than an earlier one is refused, also after init was
// restarted.
func TestFenceRefusesSmaller(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"in memory": "", "on disk": filepath.Join(t.TempDir(), "fence"),
	} {
		f, err := openFence(path)
		require.NoError(t, err, name)
		for _, number := range []int64{1, 1, 5, 5, 6, math.MaxInt64 - 1} {
			require.NoError(t, f.admit(number), name)
			require.ErrorIs(t, f.admit(number-1), runtime.ErrStaleFence, name)
			if path == "" {
				continue
			}
			again, err := openFence(path)
			require.NoError(t, err)
			require.ErrorIs(t, again.admit(number-1), runtime.ErrStaleFence, "after a restart")
			require.NoError(t, again.admit(number))
		}
	}
}

// A number that could not be written is not used: its sender gets the error,
// and the holder of the previous number is still served.
func TestFencePersistedBeforeUse(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	require.NoError(t, os.Mkdir(dir, 0o700))
	f, err := openFence(filepath.Join(dir, "fence"))
	require.NoError(t, err)
	require.NoError(t, f.admit(5))
	require.NoError(t, os.Rename(dir, dir+".gone"))
	require.ErrorContains(t, f.admit(6), "write the fence")
	require.NoError(t, f.admit(5))
	require.ErrorIs(t, f.admit(4), runtime.ErrStaleFence)
	require.NoError(t, os.Rename(dir+".gone", dir))
	require.NoError(t, f.admit(6))
}

// A number is written where no other file can be: the disk is full, or a tenant has
// taken the file's place. A stop of the container must not depend on that.
func TestFenceWithoutSpaceForAnotherFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fence")
	f, err := openFence(path)
	require.NoError(t, err)
	require.NoError(t, f.admit(9))
	require.NoError(t, os.MkdirAll(path+".new/file", 0o700))
	require.NoError(t, f.admit(10))
	again, err := openFence(path)
	require.NoError(t, err)
	require.EqualValues(t, 10, again.current)
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Symlink(t.TempDir()+"/elsewhere", path))
	require.Error(t, f.admit(11))
}

// A half-written file of an init that was killed is neither read nor kept.
func TestFenceHalfWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fence")
	require.NoError(t, os.WriteFile(path, []byte("7\n"), 0o600))
	require.NoError(t, os.WriteFile(path+".new", []byte("123456789"), 0o600))
	f, err := openFence(path)
	require.NoError(t, err)
	require.ErrorIs(t, f.admit(6), runtime.ErrStaleFence)
	require.NoError(t, f.admit(8))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "8", strings.TrimSpace(string(text)))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoFileExists(t, path+".new")
}

// An unreadable fence does not count as none.
func TestFenceUnreadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, text := range []string{"", "x", "1 2", "99999999999999999999"} {
		path := filepath.Join(dir, "fence")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := openFence(path)
		require.Error(t, err, "%q", text)
	}
	_, err := openFence(dir)
	require.Error(t, err, "a directory")
}
