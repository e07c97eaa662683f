package runtimetest

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// What a tenant may leave besides files: each is undone by a wipe, or the wipe
// says that it is there.

// rooted is box as root, where there are several users.
func (c *container) rooted(args ...string) runtime.Command {
	cmd := c.command(args...)
	if !c.Facts.OneUser {
		cmd.User = "0"
	}
	return cmd
}

// allowed executes box as root, and reports whether the container let it.
func (c *container) allowed(t *testing.T, args ...string) bool {
	t.Helper()
	result, err := c.run(t, c.rooted(args...))
	require.NoError(t, err)
	if !result.OK() {
		t.Logf("there is nothing to find: box %q: %s", args, result.Stderr.String())
	}
	return result.OK()
}

// A change of a file that was there before is found, whatever its size and its
// times say.
func wipeTampered(t *testing.T, s *suite) {
	for _, how := range []string{"rewrite", "replace", "attribute", "access-list"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := s.start(t)
			if !c.allowed(t, "write", c.path(t, "/elsewhere/file"), "good") {
				return
			}
			require.NoError(t, s.rt.Seal(t.Context(), c.id, 1))
			require.NoError(t, s.rt.Wipe(t.Context(), c.id, 1), "nothing has changed")
			require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
			if !c.allowed(t, how, c.path(t, "/elsewhere/file")) {
				return
			}
			err := s.rt.Wipe(t.Context(), c.id, 1)
			require.ErrorIs(t, err, runtime.ErrNotClean)
			require.ErrorContains(t, err, "/elsewhere/file")
		})
	}
}

// A process that mapped a file before the seal cannot go on writing to it
// unseen.
func wipeMapped(t *testing.T, s *suite) {
	if unable(t, s.Facts.NoKernel, "a mapped file") {
		return
	}
	const name = "mapped"
	c := s.start(t, func(spec *runtime.Spec) {
		spec.Command = []string{spec.Command[0], "scribble", "/elsewhere/" + name}
		if s.Facts.SharedMachine {
			spec.Command[2] = "../elsewhere/" + name // beside the volume that is its workdir
		}
	})
	file := c.path(t, "/elsewhere/"+name)
	if !c.allowed(t, "write", file, "0") {
		return
	}
	eventually(t, "it is written to", func() bool {
		result, err := c.run(t, c.rooted("read", file))
		return err == nil && result.OK() && result.Stdout.String() != "0"
	})
	require.NoError(t, s.rt.Seal(t.Context(), c.id, 1))
	sealed := c.ok(t, "read", file)
	eventually(t, "it is written to again", func() bool { return c.ok(t, "read", file) != sealed })
	require.ErrorIs(t, s.rt.Wipe(t.Context(), c.id, 1), runtime.ErrNotClean)
}

// A device that a tenant has closed stays so, and is told of.
func wipeDevice(t *testing.T, s *suite) {
	if unable(t, s.Facts.SharedMachine || s.Facts.NoKernel, "a device of its own") {
		return
	}
	for _, how := range [][]string{{"chmod", "/dev/zero", "600"}, {"access-list", "/dev/zero"}, {"chmod", "/dev/pts", "711"}} {
		c := s.start(t)
		require.NoError(t, s.rt.Seal(t.Context(), c.id, 1))
		c.ok(t, "read", "/dev/null")
		c.ok(t, "append", "/dev/null", "x")
		require.NoError(t, s.rt.Wipe(t.Context(), c.id, 1), "to use a device changes nothing")
		require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
		if c.allowed(t, how...) {
			err := s.rt.Wipe(t.Context(), c.id, 1)
			require.ErrorIs(t, err, runtime.ErrNotClean)
			require.ErrorContains(t, err, how[1])
		}
	}
}

// What is between two volumes is as it was.
func wipeNested(t *testing.T, s *suite) {
	c := s.start(t, func(spec *runtime.Spec) {
		spec.Volumes = append(spec.Volumes, runtime.Volume{Name: "inner", Target: "/data/a/b"})
	})
	require.NoError(t, s.rt.Seal(t.Context(), c.id, 1))
	before := c.ok(t, "stat", "a")
	c.ok(t, "write", "a/b/secret", "x")
	if c.allowed(t, "attribute", c.path(t, "/data/a")) {
		c.allowed(t, "write", c.path(t, "/data/a/secret"), "x")
		c.allowed(t, "access-list", c.path(t, "/data/a"))
		c.allowed(t, "chmod", c.path(t, "/data/a"), "700")
	}
	require.NoError(t, s.rt.Wipe(t.Context(), c.id, 1))
	require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
	require.Equal(t, mode(before), mode(c.ok(t, "stat", "a")))
	for _, name := range []string{"a/secret", "a/b/secret"} {
		result, err := c.run(t, c.command("stat", name))
		require.NoError(t, err)
		require.Equal(t, 1, result.ExitCode, "%s is gone", name)
	}
	if !s.Facts.NoKernel {
		require.Empty(t, strings.TrimSpace(c.ok(t, "attributes", "a")))
	}
}

// Neither depth nor number keeps anything from being deleted.
func wipeLarge(t *testing.T, s *suite) {
	if unable(t, s.Facts.NoKernel, "trees deeper than a path can name") {
		return
	}
	c := s.start(t)
	require.NoError(t, s.rt.Seal(t.Context(), c.id, 1))
	c.ok(t, "deep", "deep", "3000")
	c.ok(t, "many", "many", "20000")
	require.NoError(t, s.rt.Wipe(t.Context(), c.id, 1))
	require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
	for _, name := range []string{"deep", "many"} {
		result, err := c.run(t, c.command("stat", name))
		require.NoError(t, err)
		require.Equal(t, 1, result.ExitCode, "%s is gone", name)
	}
}

// A limit that a tenant sets on the process that all others inherit from is
// found.
func wipeLimits(t *testing.T, s *suite) {
	if unable(t, s.Facts.NoKernel, "a limit") {
		return
	}
	c := s.start(t)
	require.NoError(t, s.rt.Seal(t.Context(), c.id, 1))
	if !c.allowed(t, "limit", "1", "1000000000") { // RLIMIT_FSIZE
		return
	}
	err := s.rt.Wipe(t.Context(), c.id, 1)
	require.ErrorIs(t, err, runtime.ErrNotClean)
	require.ErrorContains(t, err, "the limit 1 of init")
}

// System V objects and message queues are removed, whoever made them.
func wipeIPC(t *testing.T, s *suite) {
	if unable(t, s.Facts.NoKernel || s.Facts.SharedMachine, "objects of its own") {
		return
	}
	c := s.start(t)
	require.NoError(t, s.rt.Seal(t.Context(), c.id, 1))
	users := []string{"0", "1001", "1001:1002"}
	if s.Facts.OneUser {
		users = []string{""}
	}
	for i, user := range users {
		for _, args := range [][]string{{"segment"}, {"queue", "queue" + strconv.Itoa(i)}} {
			cmd := c.command(args...)
			cmd.User, cmd.Workdir = user, "/"
			result, err := c.run(t, cmd)
			require.NoError(t, err)
			require.True(t, result.OK(), "%+v", result)
		}
	}
	require.NoError(t, s.rt.Wipe(t.Context(), c.id, 1))
	require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
	for _, list := range []string{"shm", "msg", "sem"} {
		lines := strings.TrimSpace(c.ok(t, "read", "/proc/sysvipc/"+list))
		require.NotContains(t, lines, "\n", "only the titles are left")
	}
	for i := range users {
		result, err := c.run(t, c.command("stat", "/dev/mqueue/queue"+strconv.Itoa(i)))
		require.NoError(t, err)
		require.Equal(t, 1, result.ExitCode)
	}
}

// What was printed before a time at which the container was wiped is not in the
// log since then, however short before that was.
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
	require.NoError(t, s.rt.Seal(t.Context(), c.id, 1))
	eventually(t, "it prints", func() bool { return strings.HasSuffix(since(time.Time{}), "idle\n") })
	// More than an engine writes down at once.
	main := strings.TrimSpace(c.ok(t, "env", "HOSTLER_MAIN_PID"))
	_, err := c.run(t, c.command("append", "/proc/"+main+"/fd/1", strings.Repeat("\n", 20_000))) // where it may
	require.NoError(t, err)
	require.NoError(t, s.rt.Wipe(t.Context(), c.id, 1))
	before, wiped := since(time.Time{}), time.Now()
	require.Empty(t, since(wiped))
	require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
	eventually(t, "it prints again", func() bool { return since(time.Time{}) == before+"idle\n" })
	require.Equal(t, "idle\n", since(wiped))
	require.Equal(t, before+"idle\n", since(wiped.Add(-time.Hour)), "there was no wipe between")
}

// Each life of the main process has pipes of its own.
func wipePipes(t *testing.T, s *suite) {
	if unable(t, s.Facts.NoKernel, "a pipe") {
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
	eventually(t, "it prints", func() bool { return len(lives()) == 1 })
	require.NoError(t, s.rt.Seal(t.Context(), c.id, 1))
	eventually(t, "it prints again", func() bool { return len(lives()) == 2 })
	require.NoError(t, s.rt.Wipe(t.Context(), c.id, 1))
	require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
	eventually(t, "it prints again", func() bool { return len(lives()) == 3 })
	for _, life := range lives() {
		require.Equal(t, lives()[0], life, "flags and size of the pipe")
	}
}
