package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/hostler/hostler/runtime/shim"
	"github.com/stretchr/testify/require"
)

// install copies this program completely, executable and not readable, and
// creates the mount point next to it. It can run twice. Directories get the
// requested mode and owner.
func TestInstall(t *testing.T) {
	mounted, dir := t.TempDir(), t.TempDir()
	file, prepared := filepath.Join(mounted, "bin", "shim"), filepath.Join(dir, "dir")
	owner := strconv.Itoa(os.Geteuid())
	for range 2 {
		require.Equal(t, 0, runInstall([]string{mounted, "1777:" + owner + ":" + prepared}))
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o111), info.Mode())
		require.NoError(t, os.Chmod(file, 0o500)) // so that the test can read it
		self, err := os.ReadFile("/proc/self/exe")
		require.NoError(t, err)
		installed, err := os.ReadFile(file)
		require.NoError(t, err)
		require.True(t, string(self) == string(installed), "same content")
		info, err = os.Stat(prepared)
		require.NoError(t, err)
		require.Equal(t, os.ModeDir|os.ModeSticky|0o777, info.Mode())
	}
	left, err := filepath.Glob(mounted + "/*/*")
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(mounted, "bin", "hostler"), file}, left, "no temporary files")
	info, err := os.Stat(left[0])
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o555), info.Mode(), "everyone may read it: gVisor runs no other program")
	require.DirExists(t, filepath.Join(mounted, "run"))
	require.Equal(t, exitUsage, runInstall(nil))
	for _, bad := range []string{"x", "0755:0", "9:0:" + prepared, "0755:x:" + prepared, "0755:0:" + dir + "/no/such"} {
		require.Equal(t, exitFailed, runInstall([]string{mounted, bad}), bad)
	}
}

// A directory that contains a tenant's files remains unchanged when a restarted
// node runs the installation again.
func TestInstallKeepsUsedDirs(t *testing.T) {
	dir := t.TempDir()
	used := filepath.Join(dir, "dir")
	require.NoError(t, os.Mkdir(used, 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(used, "file"), nil, 0o600))
	require.Equal(t, 0, runInstall([]string{t.TempDir(), "0755:" + strconv.Itoa(os.Geteuid()) + ":" + used}))
	info, err := os.Stat(used)
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|0o750, info.Mode())
}

// The main process is started by only one init as long as the marker exists.
func TestStartedMarker(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "began")
	require.False(t, startedBefore(marker))
	require.True(t, startedBefore(marker))
	require.False(t, startedBefore(""), "no marker configured")
	require.False(t, startedBefore(marker+"/no/such"))
}

// "." is the directory that init was started in. Any other directory is
// unchanged.
func TestResolveWorkdir(t *testing.T) {
	here, err := os.Getwd()
	require.NoError(t, err)
	for dir, want := range map[string]string{".": here, "/x": "/x"} {
		config := shim.Config{Workdir: dir}
		require.NoError(t, resolveWorkdir(&config))
		require.Equal(t, want, config.Workdir)
	}
}
