package runtimetest

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// What a tenant may leave in addition to files: a wipe either undoes it or reports
// it.

// rootCommand is box as root, if there are several users.
func (c *container) rootCommand(args ...string) runtime.Command {
	cmd := c.command(args...)
	if !c.Limitations.SingleUser {
		cmd.User = "0"
	}
	return cmd
}

// execAsRoot executes box as root, and reports whether the container allowed it.
func (c *container) execAsRoot(t *testing.T, args ...string) bool {
	t.Helper()
	result, err := c.exec(t, c.rootCommand(args...))
	require.NoError(t, err)
	if !result.OK() {
		t.Logf("there is nothing to find: box %q: %s", args, result.Stderr.String())
	}
	return result.OK()
}

// A change of an existing file is found, whatever its size and its times are.
func wipeTampered(t *testing.T, s *suite) {
	for _, how := range []string{"rewrite", "replace", "attribute", "access-list"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := s.start(t)
			if !c.execAsRoot(t, "write", c.path(t, "/elsewhere/file"), "good") {
				return
			}
			require.NoError(t, s.rt.RecordBaseline(t.Context(), c.id, 1))
			require.NoError(t, s.rt.Wipe(t.Context(), c.id, 1), "nothing has changed")
			require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
			if !c.execAsRoot(t, how, c.path(t, "/elsewhere/file")) {
				return
			}
			err := s.rt.Wipe(t.Context(), c.id, 1)
			require.ErrorIs(t, err, runtime.ErrWipeUnverified)
			require.ErrorContains(t, err, "/elsewhere/file")
		})
	}
}

// A process that mapped a file before the baseline cannot continue to write to it
// unnoticed.
func wipeMapped(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.NoKernel, "a mapped file") {
		return
	}
	const name = "mapped"
	c := s.start(t, func(spec *runtime.Spec) {
		spec.Command = []string{spec.Command[0], "scribble", "/elsewhere/" + name}
		if s.Limitations.SharedHost {
			spec.Command[2] = "../elsewhere/" + name // next to the volume that is its workdir
		}
	})
	file := c.path(t, "/elsewhere/"+name)
	if !c.execAsRoot(t, "write", file, "0") {
		return
	}
	testenv.AwaitTrue(t, "it is written to", func() bool {
		result, err := c.exec(t, c.rootCommand("read", file))
		return err == nil && result.OK() && result.Stdout.String() != "0"
	})
	require.NoError(t, s.rt.RecordBaseline(t.Context(), c.id, 1))
	baseline := c.mustExec(t, "read", file)
	testenv.AwaitTrue(t, "it is written to again", func() bool { return c.mustExec(t, "read", file) != baseline })
	require.ErrorIs(t, s.rt.Wipe(t.Context(), c.id, 1), runtime.ErrWipeUnverified)
}

// A device that a tenant has closed stays closed, and is reported.
func wipeDevice(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.SharedHost || s.Limitations.NoKernel, "a device of its own") {
		return
	}
	for _, how := range [][]string{{"chmod", "/dev/zero", "600"}, {"access-list", "/dev/zero"}, {"chmod", "/dev/pts", "711"}} {
		c := s.start(t)
		require.NoError(t, s.rt.RecordBaseline(t.Context(), c.id, 1))
		c.mustExec(t, "read", "/dev/null")
		c.mustExec(t, "append", "/dev/null", "x")
		require.NoError(t, s.rt.Wipe(t.Context(), c.id, 1), "using a device changes nothing")
		require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
		if c.execAsRoot(t, how...) {
			err := s.rt.Wipe(t.Context(), c.id, 1)
			require.ErrorIs(t, err, runtime.ErrWipeUnverified)
			require.ErrorContains(t, err, how[1])
		}
	}
}

// What is between two volumes is restored.
func wipeNested(t *testing.T, s *suite) {
	c := s.start(t, func(spec *runtime.Spec) {
		spec.Volumes = append(spec.Volumes, runtime.Volume{Name: "inner", Target: "/data/a/b"})
	})
	require.NoError(t, s.rt.RecordBaseline(t.Context(), c.id, 1))
	before := c.mustExec(t, "stat", "a")
	c.mustExec(t, "write", "a/b/secret", "x")
	if c.execAsRoot(t, "attribute", c.path(t, "/data/a")) {
		c.execAsRoot(t, "write", c.path(t, "/data/a/secret"), "x")
		c.execAsRoot(t, "access-list", c.path(t, "/data/a"))
		c.execAsRoot(t, "chmod", c.path(t, "/data/a"), "700")
	}
	require.NoError(t, s.rt.Wipe(t.Context(), c.id, 1))
	require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
	require.Equal(t, statMode(before), statMode(c.mustExec(t, "stat", "a")))
	for _, name := range []string{"a/secret", "a/b/secret"} {
		result, err := c.exec(t, c.command("stat", name))
		require.NoError(t, err)
		require.Equal(t, 1, result.ExitCode, "%s is removed", name)
	}
	if !s.Limitations.NoKernel {
		require.Empty(t, strings.TrimSpace(c.mustExec(t, "attributes", "a")))
	}
}

// Everything is deleted, whatever its depth and number.
func wipeLarge(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.NoKernel, "trees deeper than a path can name") {
		return
	}
	c := s.start(t)
	require.NoError(t, s.rt.RecordBaseline(t.Context(), c.id, 1))
	c.mustExec(t, "deep", "deep", "3000")
	c.mustExec(t, "many", "many", "20000")
	require.NoError(t, s.rt.Wipe(t.Context(), c.id, 1))
	require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
	for _, name := range []string{"deep", "many"} {
		result, err := c.exec(t, c.command("stat", name))
		require.NoError(t, err)
		require.Equal(t, 1, result.ExitCode, "%s is removed", name)
	}
}

// A limit that a tenant sets on the process from which all others inherit is
// found.
func wipeLimits(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.NoKernel, "a limit") {
		return
	}
	c := s.start(t)
	require.NoError(t, s.rt.RecordBaseline(t.Context(), c.id, 1))
	if !c.execAsRoot(t, "limit", "1", "1000000000") { // RLIMIT_FSIZE
		return
	}
	err := s.rt.Wipe(t.Context(), c.id, 1)
	require.ErrorIs(t, err, runtime.ErrWipeUnverified)
	require.ErrorContains(t, err, "the limit 1 of init")
}

// System V objects and message queues are removed, whatever their owner.
func wipeIPC(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.NoKernel || s.Limitations.SharedHost, "objects of its own") {
		return
	}
	c := s.start(t)
	require.NoError(t, s.rt.RecordBaseline(t.Context(), c.id, 1))
	users := []string{"0", "1001", "1001:1002"}
	if s.Limitations.SingleUser {
		users = []string{""}
	}
	for i, user := range users {
		for _, args := range [][]string{{"segment"}, {"queue", "queue" + strconv.Itoa(i)}} {
			cmd := c.command(args...)
			cmd.User, cmd.Workdir = user, "/"
			result, err := c.exec(t, cmd)
			require.NoError(t, err)
			require.True(t, result.OK(), "%+v", result)
		}
	}
	require.NoError(t, s.rt.Wipe(t.Context(), c.id, 1))
	require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
	for _, list := range []string{"shm", "msg", "sem"} {
		lines := strings.TrimSpace(c.mustExec(t, "read", "/proc/sysvipc/"+list))
		require.NotContains(t, lines, "\n", "only the titles are left")
	}
	for i := range users {
		result, err := c.exec(t, c.command("stat", "/dev/mqueue/queue"+strconv.Itoa(i)))
		require.NoError(t, err)
		require.Equal(t, 1, result.ExitCode)
	}
}

// The log of a container that was wiped has nothing from before the wipe, however
// recent it is and however much the clocks of the caller and the engine differ.
func wipeLog(t *testing.T, s *suite) {
	c := s.start(t)
	since := func(at time.Time) string {
		logs, err := s.rt.Logs(t.Context(), c.id, at, 1<<20)
		require.NoError(t, err)
		defer logs.Close()
		text, err := io.ReadAll(logs)
		require.NoError(t, err)
		return string(text)
	}
	require.NoError(t, s.rt.RecordBaseline(t.Context(), c.id, 1))
	testenv.AwaitTrue(t, "it prints", func() bool { return strings.HasSuffix(since(time.Time{}), "idle\n") })
	// More than an engine writes at once.
	main := strings.TrimSpace(c.mustExec(t, "env", "HOSTLER_MAIN_PID"))
	_, err := c.exec(t, c.command("append", "/proc/"+main+"/fd/1", strings.Repeat("\n", 20_000))) // where it may
	require.NoError(t, err)
	require.NoError(t, s.rt.Wipe(t.Context(), c.id, 1))
	before, wiped := since(time.Time{}), time.Now()
	require.Empty(t, since(wiped))
	require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
	testenv.AwaitTrue(t, "it prints again", func() bool { return since(time.Time{}) == before+"idle\n" })
	for _, skew := range []time.Duration{0, -time.Hour, time.Hour} {
		require.Equal(t, "idle\n", since(wiped.Add(skew)), "the clock of the caller is set %s forward", skew)
	}
}

// Each start of the main process has pipes of its own.
func wipePipes(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.NoKernel, "a pipe") {
		return
	}
	c := s.start(t, func(spec *runtime.Spec) { spec.Command = []string{spec.Command[0], "spoil"} })
	lives := func() []string {
		logs, err := s.rt.Logs(t.Context(), c.id, time.Time{}, 1<<20)
		require.NoError(t, err)
		defer logs.Close()
		text, err := io.ReadAll(logs)
		require.NoError(t, err)
		return slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool {
			return line == "" || strings.HasPrefix(line, "hostler-shim: wiped ")
		})
	}
	testenv.AwaitTrue(t, "it prints", func() bool { return len(lives()) == 1 })
	require.NoError(t, s.rt.RecordBaseline(t.Context(), c.id, 1))
	testenv.AwaitTrue(t, "it prints again", func() bool { return len(lives()) == 2 })
	require.NoError(t, s.rt.Wipe(t.Context(), c.id, 1))
	require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
	testenv.AwaitTrue(t, "it prints again", func() bool { return len(lives()) == 3 })
	for _, life := range lives() {
		require.Equal(t, lives()[0], life, "flags and size of the pipe")
	}
}
