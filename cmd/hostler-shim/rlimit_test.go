package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
)

// allLimits are limits of every kind.
var allLimits = runtime.ProcessLimits{CPUTime: 1500 * time.Millisecond, Memory: 4 << 30, FileSize: 1 << 20, Output: 1 << 20}

// A command has its limits, which it can lower and not raise, and no others.
func TestRlimits(t *testing.T) {
	t.Parallel()
	const show = `for limit in t v f c; do echo $(ulimit -S$limit) $(ulimit -H$limit); done`
	limits := func(l runtime.ProcessLimits) string {
		result, err := runCommand(t, func(r *shim.Run) { r.Script, r.Limits = []byte(show), l })
		require.NoError(t, err)
		require.True(t, result.OK(), "%+v", result)
		return result.Stdout.String()
	}
	require.Equal(t, "2 3\n4194304 4194304\n2048 2048\n0 0\n", limits(allLimits), "rounded up, in kilobytes, in blocks of 512 bytes")
	inherited := limits(runtime.ProcessLimits{})
	require.Equal(t, inherited, limits(runtime.ProcessLimits{Output: 1 << 20}), "not a limit of a process")
	require.NotContains(t, inherited, "4194304")
}

// A limited command that cannot be started leaves no process.
func TestLimitedStartFails(t *testing.T) {
	t.Parallel()
	s := newSupervisor(shim.Config{HostProcess: true})
	s.main.set(shim.MainRunning, 1, nil)
	t.Cleanup(s.workers.closeAll)
	r, _ := s.runs.getOrCreate("a", func() {})
	_, err := s.runInWorker(t.Context(), r, shim.Run{
		Args: []string{"/nowhere"}, Workdir: "/", Timeout: time.Minute, Grace: time.Second, Limits: allLimits})
	require.ErrorContains(t, err, string(runtime.StartBinaryNotFound))
	require.Len(t, s.workers.idle, 1)
	all, err := proctree.Scan()
	require.NoError(t, err)
	for _, p := range all {
		require.NotEqual(t, s.workers.idle[0].id.PID, p.Parent, "a child of the worker: %+v", p)
	}
}

// Without a grace period a command is killed without being asked to exit.
func TestNoGrace(t *testing.T) {
	t.Parallel()
	for grace, want := range map[time.Duration]string{0: "SIGKILL", 10 * time.Second: "SIGTERM"} {
		result, err := runCommand(t, func(r *shim.Run) {
			r.Args, r.Timeout, r.Grace = []string{"/bin/sleep", "60"}, 100*time.Millisecond, grace
		})
		require.NoError(t, err)
		require.True(t, result.TimedOut)
		require.Equal(t, want, result.Signal)
		require.Equal(t, grace == 0, result.Killed)
		require.False(t, result.OOMKilled)
	}
}
