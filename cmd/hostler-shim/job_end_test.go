package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// The reason for the end of a command is recorded only if it is known.
func TestExplain(t *testing.T) {
	t.Parallel()
	exited, killed := unix.WaitStatus(0), unix.WaitStatus(unix.SIGKILL)
	tests := []struct {
		name   string
		limits runtime.ProcessLimits
		job    job
		oom    bool // the counter has grown
		want   runtime.Result
	}{
		{"exit", allLimits, job{status: exited}, false, runtime.Result{}},
		{"exit while another process was killed", allLimits, job{status: exited}, true, runtime.Result{}},
		{"out of memory", allLimits, job{status: killed, sawSIGKILL: true}, true, runtime.Result{OOMKilled: true}},
		{"out of memory in a child", allLimits, job{status: exited, sawSIGKILL: true}, true, runtime.Result{OOMKilled: true}},
		{"killed by itself", allLimits, job{status: killed, sawSIGKILL: true}, false, runtime.Result{}},
		{"killed by this program", allLimits, job{status: killed, isKilling: true}, true, runtime.Result{}},
		{"CPU time", allLimits, job{status: unix.WaitStatus(unix.SIGXCPU)}, false, runtime.Result{Exceeded: runtime.LimitCPUTime}},
		{"CPU time, signal ignored", allLimits, job{status: killed, sawSIGKILL: true, cpuTime: 2 * time.Second}, false, runtime.Result{Exceeded: runtime.LimitCPUTime}},
		{"killed before", allLimits, job{status: killed, sawSIGKILL: true, cpuTime: time.Second}, false, runtime.Result{}},
		{"file size", allLimits, job{status: unix.WaitStatus(unix.SIGXFSZ)}, false, runtime.Result{Exceeded: runtime.LimitFileSize}},
		{"signals without limits", runtime.ProcessLimits{}, job{status: unix.WaitStatus(unix.SIGXCPU)}, false, runtime.Result{}},
		{"CPU time without a limit", runtime.ProcessLimits{}, job{status: killed, sawSIGKILL: true, cpuTime: time.Hour}, false, runtime.Result{}},
		{"file size without a limit", runtime.ProcessLimits{}, job{status: unix.WaitStatus(unix.SIGXFSZ)}, false, runtime.Result{}},
	}
	for i := range tests {
		tt := &tests[i]
		tt.job.spec, tt.job.output = shim.Run{Limits: tt.limits}, newOutputLimit(tt.limits.Output)
		var got runtime.Result
		tt.job.explain(&got, func() bool { return tt.oom })
		require.Equal(t, tt.want, got, tt.name)
	}
	full := newOutputLimit(10)
	full.add(10)
	require.False(t, full.isExceeded())
	full.add(1)
	<-full.exceeded
	var got runtime.Result
	(&job{output: full}).explain(&got, func() bool { return false })
	require.Equal(t, runtime.LimitOutput, got.Exceeded)
}

// A shell exits with 137 if its command was killed. Other processes than the
// leader may exit with that code for any reason.
func TestIsSIGKILL(t *testing.T) {
	t.Parallel()
	exit137 := unix.WaitStatus(137 << 8)
	require.True(t, isSIGKILL(unix.WaitStatus(unix.SIGKILL), false))
	require.True(t, isSIGKILL(exit137, true))
	require.False(t, isSIGKILL(exit137, false))
	require.False(t, isSIGKILL(unix.WaitStatus(unix.SIGTERM), true))
	require.False(t, isSIGKILL(unix.WaitStatus(0), true))
}

// The counter is read in both versions of cgroups. A file of a tenant is not a
// counter, and a container without one has no value.
func TestOOMCounter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{
		"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n":               3,
		"low 0\nhigh 0\nmax 8\noom 1\noom_kill 2\noom_group_kill 1\n": 2,
	} {
		killed, ok := parseOOMKills([]byte(text))
		require.True(t, ok)
		require.Equal(t, want, killed)
	}
	for _, text := range []string{"", "oom_kill", "oom_kill -1\n", "oom_kill x\n", "under_oom 0\n"} {
		_, ok := parseOOMKills([]byte(text))
		require.False(t, ok, text)
	}
	forged := filepath.Join(t.TempDir(), "memory.events")
	require.NoError(t, os.WriteFile(forged, []byte("oom_kill 1\n"), 0o644))
	counter := openOOMCounter(map[string]int64{forged: unix.CGROUP2_SUPER_MAGIC, "/nowhere": 0})
	_, ok := counter.read()
	require.False(t, ok)
}
