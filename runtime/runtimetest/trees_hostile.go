package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
)

// treeHostileCases are what a tenant's process may do while trees move.
var treeHostileCases = []testCase{
	{"flipped directories", flippedDirs},
}

// flipTime is how long a tenant replaces directories by links.
const flipTime = 3 * time.Second

// However often a process replaces a directory by a link while trees are written:
// nothing is created, changed, removed or listed elsewhere, although the writer may
// do more than the tenant.
func flippedDirs(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.NoProcesses || s.Limitations.NoKernel, "to run what replaces directories") {
		return
	}
	c := s.start(t, func(spec *runtime.Spec) {
		if !s.Limitations.SingleUser {
			spec.User = "1234:4321"
		}
	})
	targets := []string{c.path(t, "/data/outside")}
	if !s.Limitations.NoTmpfs {
		targets = append(targets, c.path(t, "/tmp/outside")) // on another filesystem
	}
	for i, target := range targets {
		for _, name := range []string{"/kept", "/sub/kept"} {
			if i == 0 { // the volume is the user's
				c.mustExec(t, "write", target+name, "kept")
				continue
			}
			require.True(t, c.execAsRoot(t, "write", target+name, "kept"))
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) { c.requireConfined(t, fmt.Sprint("jail", i), target) })
	}
}

// requireConfined writes and removes below a directory that a process replaces by a
// link to a target, and asserts that the target does not change.
func (c *container) requireConfined(t *testing.T, jail, target string) {
	dir := "/data/" + jail
	c.mustExec(t, "mkdir", jail, "755")
	c.fill(t, dir, treeFile("flip/sub/kept", "own"), treeFile("flip/kept", "own"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // ends with the context
		defer close(done)
		_, _ = c.rt.Exec(ctx, c.id, c.command("flip", c.path(t, dir+"/flip"), target))
	}()
	defer func() { cancel(); <-done }()
	testenv.AwaitTrue(t, "it replaces the directory", func() bool { return c.mustExec(t, "ps", target) != "" })
	outside := c.walk(t, c.command("walk", target))
	require.NotEmpty(t, outside)
	rounds, failed := 0, 0
	for began := time.Now(); time.Since(began) < flipTime; rounds++ {
		if _, err := c.fillAll(t, dir,
			treeFile("flip/created", "x"), treeDir("flip/dir", 0o755), treeFile("flip/dir/created", "x"), treeFile("flip/kept", "changed"),
			treeLink("flip/link", "x"), treeFile("flip/sub/created", "x"), treeDir("flip/sub/dir", 0o700), treeFile("flip/sub/kept", "changed"),
		); err != nil {
			failed++
			requireFileChanged(t, err)
		}
		_, err := c.fillAll(t, dir, treeRemoval("flip/kept"), treeRemoval("flip/sub/kept"), treeRemoval("flip/sub"))
		requireFileChanged(t, err)
		_, err = c.fillAll(t, dir, treeFile("flip/sub/deep/created", "x"), treeRemoval("flip/sub/kept"))
		requireFileChanged(t, err)
		_, err = c.fillAll(t, dir, treeRemoval("flip"))
		requireFileChanged(t, err)
		for path, content := range c.readAll(t, dir) {
			require.NotEqual(t, "kept", content.text, "%q was read elsewhere", path)
		}
	}
	removals := 0
	for began := time.Now(); time.Since(began) < flipTime; removals++ {
		_, err := c.fillAll(t, dir, treeRemoval("flip"))
		requireFileChanged(t, err)
	}
	t.Logf("%d rounds, %d of which failed, %d removals", rounds, failed, removals)
	require.Equal(t, outside, c.walk(t, c.command("walk", target)), "what is elsewhere")
}

// requireFileChanged asserts that an error, if there is one, concerns the files and
// not the container.
func requireFileChanged(t *testing.T, err error) {
	t.Helper()
	for _, one := range []error{runtime.ErrTainted, runtime.ErrUnavailable, runtime.ErrContainerExited, runtime.ErrNotRunning} {
		require.False(t, errors.Is(err, one), "%v", err)
	}
}
