package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// runCommand runs a command in a worker of a new supervisor.
func runCommand(t *testing.T, change func(*shim.Run)) (runtime.Result, error) {
	t.Helper()
	s := newSupervisor(shim.Config{HostProcess: true})
	s.main.set(shim.MainRunning, 1, nil)
	t.Cleanup(s.workers.closeAll)
	r, _ := s.runs.getOrCreate("a", func() {})
	spec := shim.Run{Args: []string{"/bin/sh"}, Workdir: "/", Timeout: time.Minute, Grace: time.Second}
	change(&spec)
	return s.runInWorker(t.Context(), r, spec)
}

// A script is a file without a name, which nothing can change, write to or
// truncate. Its stdin is its own.
func TestScript(t *testing.T) {
	t.Parallel()
	result, err := runCommand(t, func(r *shim.Run) {
		r.Script = []byte(`cat; readlink $0
echo changed 1<>$0 2>&- || echo unchanged
true >$0 || echo not truncated
cat $0 /proc/$$/cmdline /proc/$$/environ | grep -c "one copy"
`)
		r.Stdin = []byte("input ")
	})
	require.NoError(t, err)
	require.True(t, result.OK(), "%+v", result)
	require.Equal(t, "input /memfd:script (deleted)\nunchanged\nnot truncated\n1\n", result.Stdout.String())
}

// The error for a missing shell names it. Other errors are those of every
// command.
func TestScriptWithoutShell(t *testing.T) {
	t.Parallel()
	start := func(args ...string) string {
		_, err := runCommand(t, func(r *shim.Run) { r.Args, r.Script = args, []byte("exit 0") })
		require.Error(t, err)
		return err.Error()
	}
	require.Contains(t, start("/nowhere/sh"), "the image has no /nowhere/sh")
	require.Contains(t, start("no-such-shell"), "the image has no no-such-shell")
	require.NotContains(t, start("/etc/passwd"), "the image has no")
}
