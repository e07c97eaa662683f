package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/runtime/shim"
)

// Nothing that a tenant leaves in the shim's own directory, where it may write
// to it, outlives a wipe: no content, times, modes, names or attributes. Init's
// own files stay.
func TestTenantRunDirIsReset(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := shim.Config{HostProcess: true, Root: t.TempDir(), FenceFile: dir + "/fence", StartedMarker: dir + "/began"}
	require.False(t, startedBefore(config.StartedMarker))
	s := newSupervisor(config)
	s.fence.path = config.FenceFile
	require.NoError(t, s.fence.admit(7))
	runDir, err := newTenantRunDir(dir, config)
	require.NoError(t, err)
	s.baseline = &baseline{runDir: runDir, facts: facts{"x": "y"}}
	before := stat(t, dir)

	message := time.Unix(1234, 5678)
	require.NoError(t, os.WriteFile(dir+"/began", []byte("secret"), 0o600))
	require.NoError(t, os.WriteFile(dir+"/fence", []byte("8"), 0o600))
	require.NoError(t, os.Link(dir+"/fence", dir+"/fence.new"))
	require.NoError(t, os.WriteFile(dir+"/other", []byte("secret"), 0o600))
	for _, path := range []string{dir + "/began", dir + "/fence", dir} {
		require.NoError(t, os.Chmod(path, 0o751))
		require.NoError(t, os.Chtimes(path, message, message))
	}

	require.ErrorContains(t, s.wipeAndCompare(), "was", "the facts are none of this process")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	for name, want := range map[string]string{"began": "", "fence": string(fenceText(7))} {
		content, err := os.ReadFile(dir + "/" + name)
		require.NoError(t, err)
		require.Equal(t, want, string(content))
		st := stat(t, dir+"/"+name)
		require.NotEqual(t, int64(1234), st.Mtim.Sec, name)
		require.Equal(t, uint32(unix.S_IFREG|0o600), st.Mode, name)
		require.EqualValues(t, 1, st.Nlink, name)
	}
	after := stat(t, dir)
	require.Equal(t, before.Mtim, after.Mtim)
	require.Equal(t, before.Mode, after.Mode)
}

func stat(t *testing.T, path string) unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(path, &st))
	return st
}
