package runtimetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// shimProtectionCases tests that a tenant can reach nothing of the program that
// supervises it.
func shimProtectionCases(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.SharedHost || s.Limitations.NoProcesses || s.Limitations.NoKernel, "to keep its shim out of reach") {
		return
	}
	cases := []struct {
		name string
		run  func(t *testing.T, c *container, user string)
	}{
		{"its directory cannot be moved", shimDirNotMovable},
		{"nothing can be left in it", shimDirNotWritable},
		{"its socket cannot be taken", shimSocketNotTakable},
		{"its processes cannot be touched", shimProcessesProtected},
	}
	for _, readOnly := range []bool{false, true} {
		name := "writable root"
		if readOnly {
			name = "read-only root"
		}
		for _, k := range cases {
			t.Run(name+"/"+k.name, func(t *testing.T) {
				t.Parallel()
				c := s.start(t, func(spec *runtime.Spec) { spec.ReadOnly = readOnly })
				for _, user := range s.users() {
					k.run(t, c, user)
				}
			})
		}
	}
}

// users returns the users of a tenant's commands.
func (s *suite) users() []string {
	if s.Limitations.SingleUser {
		return []string{""}
	}
	return []string{"0:0", "1234:5678"}
}

// shimPaths are the paths of the program in a container, and of its socket.
var shimPaths = []string{"/.hostler", "/.hostler/bin", "/.hostler/bin/shim", "/.hostler/state", "/.hostler/run"}

// requireExecFails asserts that a command fails by itself.
func (c *container) requireExecFails(t *testing.T, user string, args ...string) {
	t.Helper()
	cmd := c.command(args...)
	cmd.User = user
	result, err := c.exec(t, cmd)
	require.NoError(t, err, "as %q: box %q", user, args)
	require.Equal(t, 1, result.ExitCode, "as %q: box %q: %+v", user, args, result)
}

func shimDirNotMovable(t *testing.T, c *container, user string) {
	for _, path := range shimPaths {
		c.requireExecFails(t, user, "rename", path, "/tmp/moved")
		c.requireExecFails(t, user, "rename", path, "/.moved")
		c.requireExecFails(t, user, "remove", path)
	}
	c.requireExecFails(t, user, "rename", "/tmp", "/.hostler")
	require.NoError(t, c.rt.Restart(t.Context(), c.id, 1))
	require.Equal(t, "still\n", c.mustExec(t, "echo", "still"))
}

// If the tenant is the same user as its shim, one directory is the tenant's as
// well, and a wipe empties it.
func shimDirNotWritable(t *testing.T, c *container, user string) {
	dirs := shimPaths
	if c.Limitations.SingleUser {
		dirs = dirs[:len(dirs)-1]
	}
	for _, dir := range dirs {
		c.requireExecFails(t, user, "write", dir+"/left", "x")
		c.requireExecFails(t, user, "mkdir", dir+"/left", "755")
		c.requireExecFails(t, user, "link", "x", dir+"/left")
		c.requireExecFails(t, user, "mkfifo", dir+"/left")
		c.requireExecFails(t, user, "chmod", dir, "777")
	}
	c.requireExecFails(t, user, "read", "/.hostler/bin/shim")
}

// The socket is out of reach, or an abstract one that no other process can bind,
// and connections of a tenant do not block the server.
func shimSocketNotTakable(t *testing.T, c *container, user string) {
	address := "/.hostler/run/sock"
	if !c.Limitations.SingleUser {
		c.requireExecFails(t, user, "remove", address)
		c.requireExecFails(t, user, "connect", address)
	} else {
		address = "@hostler-shim"
		require.Empty(t, c.mustExec(t, "connect", address), "it exists")
		flood := c.command("flood", address, "40")
		flood.Timeout = time.Minute
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { // ends with the context
			_, err := c.rt.Exec(ctx, c.id, flood)
			done <- err
		}()
		testenv.AwaitTrue(t, "the flood", func() bool { return c.mustExec(t, "ps", "flood") != "" })
		for range 5 {
			for line := range strings.Lines(c.mustExec(t, "ps", "connect")) {
				pid, argv, _ := strings.Cut(strings.TrimSpace(line), " ")
				if !strings.Contains(argv, address) {
					_, _ = c.exec(t, c.command("kill", pid, "KILL")) // the bridge: its response comes through the next one
				}
			}
			require.Equal(t, "still\n", c.mustExec(t, "echo", "still"))
		}
		cancel()
		<-done //nolint:errcheck // the flood was ended
	}
	c.requireExecFails(t, user, "listen", address)
	require.Equal(t, "still\n", c.mustExec(t, "echo", "still"))
}

// allowedOnWorker is what root may do to the process that runs commands: a command
// inherits it, and both end with the next restart.
const allowedOnWorker = "write autogroup\nwrite clear_refs\nwrite coredump_filter\nwrite oom_adj\nwrite oom_score_adj\nwrite sched\n"

// No process of a tenant can stop, end, trace, limit or slow down the shim's, or
// read their content.
func shimProcessesProtected(t *testing.T, c *container, user string) {
	if isUnsupported(t, c.Limitations.SingleUser, "to be another user than its tenant") {
		return
	}
	harmless := allowedOnWorker
	if c.Limitations.ReadableIOCounters {
		harmless += "read io\n"
	}
	seen := make(map[string]bool)
	for line := range strings.Lines(c.mustExec(t, "ps", "shim")) {
		pid, argv, _ := strings.Cut(strings.TrimSpace(line), " ")
		words := strings.Fields(argv)
		what := words[len(words)-1]
		seen[what] = true
		cmd := c.command("attack", pid)
		cmd.User = user
		result, err := c.exec(t, cmd)
		require.NoError(t, err, "as %q: attack %s", user, argv)
		require.True(t, result.OK(), "as %q: attack %s: %+v", user, argv, result)
		for done := range strings.Lines(result.Stdout.String()) {
			require.True(t, what == "worker" && user == "0:0" && strings.Contains(harmless, done), "%q may do to %s: %s", user, argv, done)
		}
	}
	require.Equal(t, map[string]bool{"init": true, "worker": true, "connect": true}, seen, "the attacked processes")
	require.Equal(t, "still\n", c.mustExec(t, "echo", "still"))
}
