package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/hostler/hostler/runtime/shim"
	"github.com/stretchr/testify/require"
)

// What is installed is this program, whole, to be run and not to be read, and
// beside it the mount point; a second time too. Folders are as they were asked
// for.
func TestInstall(t *testing.T) {
	mounted, dir := t.TempDir(), t.TempDir()
	file, prepared := filepath.Join(mounted, "bin", "shim"), filepath.Join(dir, "folder")
	owner := strconv.Itoa(os.Geteuid())
	for range 2 {
		require.Equal(t, 0, runInstall([]string{mounted, "1777:" + owner + ":" + prepared}))
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o111), info.Mode())
		require.NoError(t, os.Chmod(file, 0o500)) // for us to read
		self, err := os.ReadFile("/proc/self/exe")
		require.NoError(t, err)
		installed, err := os.ReadFile(file)
		require.NoError(t, err)
		require.True(t, string(self) == string(installed), "byte for byte")
		info, err = os.Stat(prepared)
		require.NoError(t, err)
		require.Equal(t, os.ModeDir|os.ModeSticky|0o777, info.Mode())
	}
	left, err := filepath.Glob(mounted + "/*/*")
	require.NoError(t, err)
	require.Equal(t, []string{file}, left, "nothing half made")
	require.DirExists(t, filepath.Join(mounted, "run"))
	require.Equal(t, exitUsage, runInstall(nil))
	for _, bad := range []string{"x", "0755:0", "9:0:" + prepared, "0755:x:" + prepared, "0755:0:" + dir + "/no/such"} {
		require.Equal(t, exitFailed, runInstall([]string{mounted, bad}), bad)
	}
}

// A folder with a tenant's files in it stays as the tenant needs it, when a node
// that was away installs anew.
func TestInstallKeepsUsedDirs(t *testing.T) {
	dir := t.TempDir()
	used := filepath.Join(dir, "folder")
	require.NoError(t, os.Mkdir(used, 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(used, "file"), nil, 0o600))
	require.Equal(t, 0, runInstall([]string{t.TempDir(), "0755:" + strconv.Itoa(os.Geteuid()) + ":" + used}))
	info, err := os.Stat(used)
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|0o750, info.Mode())
}

// The main process is begun by one init only, as long as the note is there.
func TestStartedMarker(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "began")
	require.False(t, startedBefore(marker))
	require.True(t, startedBefore(marker))
	require.False(t, startedBefore(""), "an engine that starts nothing unasked")
	require.False(t, startedBefore(marker+"/no/such"))
}

// "." is where init was started, and anything else is meant as it is.
func TestResolveWorkdir(t *testing.T) {
	here, err := os.Getwd()
	require.NoError(t, err)
	for dir, want := range map[string]string{".": here, "/x": "/x"} {
		config := shim.Config{Workdir: dir}
		require.NoError(t, resolveWorkdir(&config))
		require.Equal(t, want, config.Workdir)
	}
}
