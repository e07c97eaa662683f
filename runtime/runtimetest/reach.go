package runtimetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// reach is what a tenant can reach of the program that looks after it: nothing.
func reach(t *testing.T, s *suite) {
	if unable(t, s.Facts.SharedMachine || s.Facts.NoProcesses || s.Facts.NoKernel, "to keep its shim out of reach") {
		return
	}
	cases := []struct {
		name string
		run  func(t *testing.T, c *container, user string)
	}{
		{"its directory cannot be moved", shimMoved},
		{"nothing can be left in it", shimLeft},
		{"its socket cannot be taken", shimSocket},
		{"its processes cannot be touched", shimTouched},
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

// users are whom a tenant's commands may run as.
func (s *suite) users() []string {
	if s.Facts.OneUser {
		return []string{""}
	}
	return []string{"0:0", "1234:5678"}
}

// shimPaths are where the program is in a container, and where its socket may
// be.
var shimPaths = []string{"/.hostler", "/.hostler/bin", "/.hostler/bin/shim", "/.hostler/state", "/.hostler/run"}

// refused asserts that a command fails by itself.
func (c *container) refused(t *testing.T, user string, args ...string) {
	t.Helper()
	cmd := c.command(args...)
	cmd.User = user
	result, err := c.run(t, cmd)
	require.NoError(t, err, "as %q: box %q", user, args)
	require.Equal(t, 1, result.ExitCode, "as %q: box %q: %+v", user, args, result)
}

func shimMoved(t *testing.T, c *container, user string) {
	for _, path := range shimPaths {
		c.refused(t, user, "rename", path, "/tmp/moved")
		c.refused(t, user, "rename", path, "/.moved")
		c.refused(t, user, "remove", path)
	}
	c.refused(t, user, "rename", "/tmp", "/.hostler")
	require.NoError(t, c.rt.Restart(t.Context(), c.id, 1))
	require.Equal(t, "still\n", c.ok(t, "echo", "still"))
}

// Where the tenant is the same user as its shim, one folder is the tenant's as
// well, and is emptied by a wipe.
func shimLeft(t *testing.T, c *container, user string) {
	dirs := shimPaths
	if c.Facts.OneUser {
		dirs = dirs[:len(dirs)-1]
	}
	for _, dir := range dirs {
		c.refused(t, user, "write", dir+"/left", "x")
		c.refused(t, user, "mkdir", dir+"/left", "755")
		c.refused(t, user, "link", "x", dir+"/left")
		c.refused(t, user, "mkfifo", dir+"/left")
		c.refused(t, user, "chmod", dir, "777")
	}
	c.refused(t, user, "read", "/.hostler/bin/shim")
}

// The socket is out of reach, or an abstract one that nobody else can have, and
// connections of a tenant's do not keep the server out.
func shimSocket(t *testing.T, c *container, user string) {
	address := "/.hostler/run/sock"
	if !c.Facts.OneUser {
		c.refused(t, user, "remove", address)
		c.refused(t, user, "connect", address)
	} else {
		address = "@hostler-shim"
		require.Empty(t, c.ok(t, "connect", address), "it is there")
		flood := c.command("flood", address, "40")
		flood.Timeout = time.Minute
		over := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { // ends with the context
			_, err := c.rt.Exec(ctx, c.id, flood)
			over <- err
		}()
		eventually(t, "the flood", func() bool { return c.ok(t, "ps", "flood") != "" })
		for range 5 {
			for line := range strings.Lines(c.ok(t, "ps", "connect")) {
				pid, argv, _ := strings.Cut(strings.TrimSpace(line), " ")
				if !strings.Contains(argv, address) {
					_, _ = c.run(t, c.command("kill", pid, "KILL")) // the bridge: its answer comes by the next one
				}
			}
			require.Equal(t, "still\n", c.ok(t, "echo", "still"))
		}
		cancel()
		<-over //nolint:errcheck // the flood was ended
	}
	c.refused(t, user, "listen", address)
	require.Equal(t, "still\n", c.ok(t, "echo", "still"))
}

// ofWorker is what root may do to the process that runs commands: a command has
// it from there, and both end with the next restart.
const ofWorker = "write autogroup\nwrite clear_refs\nwrite coredump_filter\nwrite oom_adj\nwrite oom_score_adj\nwrite sched\n"

// No process of a tenant can stop, end, trace, limit or slow down the shim's, or
// read what they hold.
func shimTouched(t *testing.T, c *container, user string) {
	if unable(t, c.Facts.OneUser, "to be another user than its tenant") {
		return
	}
	harmless := ofWorker
	if c.Facts.OpenCounters {
		harmless += "read io\n"
	}
	seen := make(map[string]bool)
	for line := range strings.Lines(c.ok(t, "ps", "shim")) {
		pid, argv, _ := strings.Cut(strings.TrimSpace(line), " ")
		words := strings.Fields(argv)
		what := words[len(words)-1]
		seen[what] = true
		cmd := c.command("attack", pid)
		cmd.User = user
		result, err := c.run(t, cmd)
		require.NoError(t, err, "as %q: attack %s", user, argv)
		require.True(t, result.OK(), "as %q: attack %s: %+v", user, argv, result)
		for done := range strings.Lines(result.Stdout.String()) {
			require.True(t, what == "worker" && user == "0:0" && strings.Contains(harmless, done), "%q may do to %s: %s", user, argv, done)
		}
	}
	require.Equal(t, map[string]bool{"init": true, "worker": true, "connect": true}, seen, "what was attacked")
	require.Equal(t, "still\n", c.ok(t, "echo", "still"))
}
