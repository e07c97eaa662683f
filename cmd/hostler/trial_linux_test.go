package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/workload"
)

// A trial that runs has its directory locked; one that was killed has not, and a
// directory that was removed or replaced since it was opened is no one's.
func TestTrialDirectory(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "trials")
	d, err := newTrialDir(parent)
	require.NoError(t, err)
	again, err := lockTrialDir(d.path)
	require.NoError(t, err)
	require.Nil(t, again, "it runs")
	require.NoError(t, d.close())
	again, err = lockTrialDir(d.path)
	require.NoError(t, err)
	require.NotNil(t, again, "it was killed")
	require.NoError(t, again.remove())
	again, err = lockTrialDir(d.path)
	require.NoError(t, err)
	require.Nil(t, again, "it is removed")

	moved := filepath.Join(parent, "moved")
	require.NoError(t, os.Mkdir(moved, 0o700))
	require.NoError(t, os.Symlink(moved, d.path))
	again, err = lockTrialDir(d.path)
	require.NoError(t, err)
	require.Nil(t, again, "what is opened is not what has the name")
}

// What a killed trial has left can be removed by the next, and the keys of its server
// are this user's.
func TestTrialConfiguration(t *testing.T) {
	d, err := newTrialDir(t.TempDir())
	require.NoError(t, err)
	defer d.close() //nolint:errcheck // of a test
	c, err := d.configure(serveConfig{runtime: "process"})
	require.NoError(t, err)
	require.True(t, c.ownState)
	for _, file := range []string{c.apiKeyFile, filepath.Join(c.credentialsDir, "parameters.key"), filepath.Join(d.path, trialConfigFile)} {
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file)
	}
	info, err := os.Stat(d.path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

// The hook whose failure is the trial's is the first whose last attempt failed, unless
// its point continues.
func TestTrialHooks(t *testing.T) {
	w, err := workload.Parse([]byte(`id: w
image: none
hooks:
  pre_release:
    - { name: may, command: ["false"], on_error: continue }
    - { name: must, command: ["false"] }
    - { name: tries, command: ["false"], on_error: retry, retries: 1, on_exhausted: continue }
`), "w.yaml")
	require.NoError(t, err)
	tr := &trial{workload: w, trialScreen: newTrialScreen(new(bytes.Buffer), "w")}
	add := func(id, hook string, attempt int, state client.RunState) {
		run := &client.Run{ID: id, Point: client.PreRelease, Hook: hook, Attempt: attempt, State: state}
		tr.rows = append(tr.rows, trialRow{what: string(hooks.PreRelease), hook: hook, result: string(state), run: run})
	}
	add("1", "may", 1, client.RunFailed)
	add("2", "tries", 1, client.RunFailed)
	require.Equal(t, exitOK, tr.failedHook())
	add("3", "must", 1, client.RunFailed)
	add("3", "must", 2, client.RunSucceeded)
	require.Equal(t, exitOK, tr.failedHook(), "the last attempt counts")
	add("4", "must", 1, client.RunTimedOut)
	require.Equal(t, exitHook, tr.failedHook())
	require.Equal(t, "timed_out", tr.failedRow().result)
}

// A trial shows first what validate notes, such as a timeout in milliseconds.
func TestTrialNotes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w.yaml")
	require.NoError(t, os.WriteFile(file, []byte("id: w\nimage: none\nhooks:\n  post_claim: [{ command: [sh, -c, 'echo $A'], timeout: 30 }]\n"), 0o600))
	var errOut bytes.Buffer
	w, err := (&trialOptions{errOut: &errOut}).read(file)
	require.NoError(t, err)
	require.Equal(t, "w", w.ID)
	require.Contains(t, errOut.String(), "note: hooks.post_claim[0].timeout: is 30ms")
	require.Contains(t, errOut.String(), "unquoted variable")
}

// A change of the file, of a workload file next to it or of a seed is tried.
func TestTrialWatches(t *testing.T) {
	for path, want := range map[string]bool{
		"dir/w.yaml": true, "dir/parent.yml": true, "dir/seed/a/b": true, "dir/seed": true, "dir/notes.txt": false, "dir/seeds/a": false, "dir/w.yaml~": false,
	} {
		require.Equal(t, want, isWatched(path, "dir/w.yaml", []string{"dir/seed"}), path)
	}
}
