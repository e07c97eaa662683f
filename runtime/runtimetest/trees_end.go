package runtimetest

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/tree"
)

// treeEndCases are scans and writers that end early, and others that need containers
// of their own.
var treeEndCases = []testCase{
	{"owners", treeOwners},
	{"stopped container", treeOfStopped},
	{"canceled scan", scanCanceled},
	{"canceled writer", fillCanceled},
	{"container exits in a scan", scanOfExited},
	{"container exits in a writer", fillOfExited},
}

// Files belong to the container's user, whatever its ids are, or to those whose ids an
// entry has.
func treeOwners(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.SingleUser, "to have files of another user") {
		return
	}
	c := s.start(t, func(spec *runtime.Spec) { spec.User = "1234:4321" })
	other, group := treeFile("other", "x"), treeFile("group", "x")
	other.Owner, other.Group, group.Group = 55, 66, 66
	c.fill(t, "/data", treeFile("own", "x"), other, group, treeDir("open", 0o777), treeFile("new/own", "x"))
	require.True(t, c.execAsRoot(t, "write", c.path(t, "/data/open/root"), "x"))
	c.mustExec(t, "append", "own", "y")
	c.mustExec(t, "append", "new/own", "y")
	c.mustExec(t, "write", "new/more", "y")
	got := c.list(t, "/data")
	c.requireWalk(t, "/data", got)
	owners := make(map[string][2]int64)
	for _, e := range got {
		owners[e.Path] = [2]int64{e.Owner, e.Group}
	}
	own := [2]int64{tree.OwnUser, tree.OwnGroup}
	for _, path := range []string{"own", "open", "new", "new/own", "new/more"} {
		require.Equal(t, own, owners[path], path)
	}
	require.Equal(t, int64(0), owners["open/root"][0])
	if owners["other"] != own { // the program may not do more than its user
		require.Equal(t, [2]int64{55, 66}, owners["other"])
		require.Equal(t, [2]int64{tree.OwnUser, 66}, owners["group"])
	}
}

// awaitNoProcess waits until no process has the marker in its argv.
func (c *container) awaitNoProcess(t *testing.T, marker string) {
	t.Helper()
	testenv.AwaitTrue(t, "no process works on it", func() bool { return c.mustExec(t, "ps", marker) == "" })
}

// treeOfStopped scans and fills a container without processes, as a release and a
// claim do.
func treeOfStopped(t *testing.T, s *suite) {
	c := s.start(t)
	c.mustExec(t, "write", "dir/file", "text")
	require.NoError(t, s.rt.Stop(t.Context(), c.id, 1))
	want := map[string]string{"dir": "d:", "dir/file": "f:text"}
	require.Equal(t, want, c.kinds(t, "/data"))
	c.fill(t, "/data", treeFile("dir/new", "new"))
	want["dir/new"] = "f:new"
	require.Equal(t, want, c.kinds(t, "/data"))
	require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
	require.Equal(t, "new", c.mustExec(t, "read", "dir/new"))

	created := s.Spec(t)
	s.create(t, created)
	_, err := c.rt.ScanTree(t.Context(), created.ID, "/data", tree.ScanOptions{})
	require.ErrorIs(t, err, runtime.ErrNotRunning, "a container that was never started")
	_, err = c.rt.FillTree(t.Context(), created.ID, "/data", 1, nil)
	require.ErrorIs(t, err, runtime.ErrNotRunning, "a container that was never started")
}

// largeTreeFile is a file that is larger than what may be on its way.
func (c *container) largeTreeFile(t *testing.T) treeItem {
	t.Helper()
	size := 64 << 20
	if isUnsupported(t, c.Limitations.NoProcesses || c.Limitations.NoKernel, "to hold 64 MiB") {
		size = 1 << 20
	}
	return treeFile("large", strings.Repeat("0123456789abcdef", size/16))
}

// readUntil begins to read a large file, interrupts that, and returns the error.
func (c *container) readUntil(ctx context.Context, t *testing.T, dir string, interrupt func()) error {
	t.Helper()
	scan, err := c.rt.ScanTree(ctx, c.id, dir, tree.ScanOptions{})
	require.NoError(t, err)
	defer scan.Close()
	entries, err := scan.Next()
	require.NoError(t, err)
	require.Len(t, entries, 1)
	err = scan.Read([]int{0}, func(_ int, as tree.Entry, content tree.Content) error {
		_, _, err := content.Next()
		require.NoError(t, err)
		interrupt()
		_, err = readContent(as, content)
		return err
	})
	if err != nil {
		_, again := scan.Next()
		require.Error(t, again, "the scan has failed")
		require.NotErrorIs(t, again, io.EOF, "the list is not complete")
		return err
	}
	_, err = scan.Next()
	return err
}

func scanCanceled(t *testing.T, s *suite) {
	c := s.start(t)
	marker := newMarker()
	c.mustExec(t, "mkdir", marker, "755")
	c.fill(t, "/data/"+marker, c.largeTreeFile(t))
	ctx, cancel := context.WithCancel(t.Context())
	err := c.readUntil(ctx, t, "/data/"+marker, cancel)
	require.ErrorIs(t, err, context.Canceled)
	c.awaitNoProcess(t, marker)
	_, err = c.rt.ScanTree(ctx, c.id, "/data", tree.ScanOptions{})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "still\n", c.mustExec(t, "echo", "still"))
}

// writeUntil begins to write a large file, interrupts that, and returns the error.
func (c *container) writeUntil(ctx context.Context, t *testing.T, dir string, interrupt func()) error {
	t.Helper()
	w, err := c.rt.FillTree(ctx, c.id, dir, 0, nil)
	require.NoError(t, err)
	item := c.largeTreeFile(t)
	require.NoError(t, w.Create(item.Entry))
	half := item.body[:len(item.body)/2]
	require.NoError(t, w.Write([]byte(half)))
	interrupt()
	err = w.Write([]byte(half))
	if err == nil {
		err = w.Close()
	}
	require.Error(t, w.Close(), "it has failed")
	w.Abort(err)
	return err
}

func fillCanceled(t *testing.T, s *suite) {
	c := s.start(t)
	marker := newMarker()
	c.mustExec(t, "mkdir", marker, "755")
	ctx, cancel := context.WithCancel(t.Context())
	err := c.writeUntil(ctx, t, "/data/"+marker, cancel)
	require.ErrorIs(t, err, context.Canceled)
	c.awaitNoProcess(t, marker)
	_, err = c.rt.FillTree(ctx, c.id, "/data", 0, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "still\n", c.mustExec(t, "echo", "still"))
}

// requireExited asserts that an error is that of a container which has exited, or of
// an engine that does not know that yet.
func requireExited(t *testing.T, err error) {
	t.Helper()
	for _, one := range []error{runtime.ErrContainerExited, runtime.ErrNotRunning, runtime.ErrUnavailable} {
		if errors.Is(err, one) {
			return
		}
	}
	require.Fail(t, "the error is not that of a container that exited", "%v", err)
}

func scanOfExited(t *testing.T, s *suite) {
	for _, restart := range []bool{false, true} {
		c := s.start(t)
		c.fill(t, "/data", c.largeTreeFile(t))
		err := c.readUntil(t.Context(), t, "/data", func() { c.endAndStart(t, restart) })
		requireExited(t, err)
	}
}

func fillOfExited(t *testing.T, s *suite) {
	for _, restart := range []bool{false, true} {
		c := s.start(t)
		err := c.writeUntil(t.Context(), t, "/data", func() { c.endAndStart(t, restart) })
		requireExited(t, err)
	}
}

// endAndStart ends a container by its main process, and may start it again.
func (c *container) endAndStart(t *testing.T, start bool) {
	t.Helper()
	c.endMain(t)
	if start {
		require.NoError(t, c.rt.Restart(t.Context(), c.id, 2))
	}
}
