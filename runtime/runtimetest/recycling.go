package runtimetest

import (
	"testing"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// recycleCases tests RecordBaseline and Wipe: nothing of a tenant is left, or it is
// reported.
func recycleCases(t *testing.T, s *suite) {
	cases := []testCase{
		{"wipe", wipe},
		{"without a baseline", wipeWithoutBaseline},
		{"a file elsewhere", wipeChanged},
		{"processes", wipeProcesses},
		{"again and again", wipeRepeated},
		{"a file that looks unchanged", wipeTampered},
		{"a file that was mapped before", wipeMapped},
		{"a device", wipeDevice},
		{"nested volumes", wipeNested},
		{"large trees", wipeLarge},
		{"log", wipeLog},
		{"pipes", wipePipes},
		{"limits of process 1", wipeLimits},
		{"objects that outlive processes", wipeIPC},
	}
	if isUnsupported(t, s.Limitations.WipeUnverifiable, "to wipe a container") {
		cases = []testCase{{"without a baseline", wipeWithoutBaseline}, {"never", wipeUnverifiable}}
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			k.run(t, s)
		})
	}
}

// A state that cannot be proven counts as changed, although nothing was done to the
// container and nothing can be written to its root filesystem.
func wipeUnverifiable(t *testing.T, s *suite) {
	c := s.start(t, func(spec *runtime.Spec) { spec.ReadOnly = true })
	require.NoError(t, s.rt.RecordBaseline(t.Context(), c.id, 1))
	require.ErrorIs(t, s.rt.Wipe(t.Context(), c.id, 1), runtime.ErrWipeUnverified)
}

func wipe(t *testing.T, s *suite) {
	c := s.start(t)
	before := c.mustExec(t, "stat", ".")
	require.NoError(t, s.rt.RecordBaseline(t.Context(), c.id, 1))
	c.mustExec(t, "write", "secret", "x")
	c.mustExec(t, "write", "deep/er/secret", "x")
	c.mustExec(t, "write", ".hidden", "x")
	c.mustExec(t, "mkdir", "closed", "0")
	c.mustExec(t, "link", "/etc/passwd", "link")
	c.mustExec(t, "chmod", ".", "700")
	temporary := !isUnsupported(t, s.Limitations.NoTmpfs, "a temporary filesystem")
	if temporary {
		c.mustExec(t, "write", c.path(t, "/tmp/secret"), "x")
	}
	secret := c.path(t, "/tmp/secret")

	require.NoError(t, s.rt.Wipe(t.Context(), c.id, 1))
	_, err := c.exec(t, c.command("exit", "0"))
	require.ErrorIs(t, err, runtime.ErrNotRunning, "a wipe ends the main process")

	require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
	for _, name := range []string{"secret", "deep", ".hidden", "closed", "link", secret} {
		result, err := c.exec(t, c.command("stat", name))
		require.NoError(t, err)
		require.Equal(t, 1, result.ExitCode, "%s is removed", name)
	}
	require.Equal(t, statMode(before), statMode(c.mustExec(t, "stat", ".")), "the volume's own mode is restored")
}

// statMode returns type, mode and owner from the output of `box stat`.
func statMode(stat string) string {
	for i := len(stat) - 1; i > 0; i-- {
		if stat[i] == ' ' {
			return stat[:i]
		}
	}
	return stat
}

func wipeWithoutBaseline(t *testing.T, s *suite) {
	c := s.start(t)
	require.ErrorIs(t, s.rt.Wipe(t.Context(), c.id, 1), runtime.ErrWipeUnverified)
}

// What is neither on a volume nor temporary must be unchanged.
func wipeChanged(t *testing.T, s *suite) {
	c := s.start(t)
	require.NoError(t, s.rt.RecordBaseline(t.Context(), c.id, 1))
	cmd := c.command("write", c.path(t, "/elsewhere"), "x")
	if !s.Limitations.SingleUser {
		cmd.User = "0"
	}
	result, err := c.exec(t, cmd)
	require.NoError(t, err)
	if !result.OK() {
		t.Log("the root filesystem is not writable: there is nothing to find")
		return
	}
	err = s.rt.Wipe(t.Context(), c.id, 1)
	require.ErrorIs(t, err, runtime.ErrWipeUnverified)
	require.ErrorContains(t, err, "/elsewhere")
}

// A wipe while a command runs: the command is lost, and no process survives.
func wipeProcesses(t *testing.T, s *suite) {
	c := s.start(t)
	require.NoError(t, s.rt.RecordBaseline(t.Context(), c.id, 1))
	marker, done := newMarker(), make(chan error, 1)
	go func() { // ends with the wipe
		_, err := s.rt.Exec(t.Context(), c.id, c.command("forkstorm", marker))
		done <- err
	}()
	testenv.AwaitTrue(t, "the command runs", func() bool { return c.mustExec(t, "ps", marker) != "" })
	require.NoError(t, s.rt.Wipe(t.Context(), c.id, 1))
	require.ErrorIs(t, <-done, runtime.ErrContainerExited)
	require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
	c.requireNoProcess(t, marker)
}

// A container serves many tenants, one after the other.
func wipeRepeated(t *testing.T, s *suite) {
	c := s.start(t)
	require.NoError(t, s.rt.RecordBaseline(t.Context(), c.id, 1))
	for range 3 {
		c.mustExec(t, "write", "secret", "x")
		require.NoError(t, s.rt.Wipe(t.Context(), c.id, 1))
		require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
		result, err := c.exec(t, c.command("read", "secret"))
		require.NoError(t, err)
		require.Equal(t, 1, result.ExitCode)
	}
}
