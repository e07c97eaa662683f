package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A cleanup runs the programs that a trial's directory names, with the hooks of its
// database. It leaves alone those that another user can have made, and no trial begins
// where another user can replace its directory.
func TestTrialOfOthers(t *testing.T) {
	parent := t.TempDir()
	planted := filepath.Join(parent, "trial-planted")
	require.NoError(t, os.Mkdir(planted, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(planted, trialConfigFile), []byte(`{"runtime":"process","shim":"/tmp/evil"}`), 0o600))
	o := &trialOptions{parent: parent}
	require.NoError(t, os.Chmod(planted, 0o777))
	require.NoError(t, o.removeLeftovers(t.Context()))
	require.DirExists(t, planted, "others can write to it")
	if os.Geteuid() == 0 { // only root can give a file away
		require.NoError(t, os.Chmod(planted, 0o700))
		require.NoError(t, os.Chown(planted, 1000, 1000))
		require.NoError(t, o.removeLeftovers(t.Context()))
		require.DirExists(t, planted, "it is another user's")
	}

	below := filepath.Join(parent, "open", "below")
	require.NoError(t, os.MkdirAll(below, 0o700))
	for mode, isRefused := range map[os.FileMode]bool{0o777: true, 0o777 | os.ModeSticky: false, 0o755: false} {
		require.NoError(t, os.Chmod(filepath.Dir(below), mode))
		d, err := newTrialDir(below)
		require.Equal(t, isRefused, err != nil, "%v: %v", mode, err)
		if err == nil {
			require.NoError(t, d.remove())
			continue
		}
		require.ErrorContains(t, err, "name another directory with --data")
		require.ErrorContains(t, (&trialOptions{parent: below}).removeLeftovers(t.Context()), "other users can write to")
	}
}

// Where trials are is checked without links, which others could switch after the
// check, and who may write there includes a group of several users and the overflow user.
func TestTrialParent(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	real, link := filepath.Join(root, "real"), filepath.Join(root, "link")
	require.NoError(t, os.Mkdir(real, 0o700))
	require.NoError(t, os.Symlink(real, link))
	dir, err := safeTrialParent(link)
	require.NoError(t, err)
	require.Equal(t, real, dir)
	d, err := newTrialDir(link)
	require.NoError(t, err)
	require.Equal(t, real, filepath.Dir(d.path))
	require.NoError(t, d.remove())

	const nogroup = 65534
	require.True(t, isWrittenByOthers(0o775, nogroup))
	require.True(t, isWrittenByOthers(0o702, 0))
	require.False(t, isWrittenByOthers(0o755, nogroup))
	require.False(t, isWrittenByOthers(0o775, 0))
	require.True(t, coversOverflow("         0          0 4294967295\n"), "the overflow user is one of the host")
	require.False(t, coversOverflow("         0       1000          1\n         1     100000      65533\n"))
	if os.Geteuid() == 0 && !hasUnmappedUsers() { // only root can give a directory away
		require.NoError(t, os.Chown(real, overflowUID, 0))
		_, err = safeTrialParent(link)
		require.ErrorContains(t, err, "other users can write to "+real)
	}
}
