package runtimetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/tree"
)

// treeListCases are about what a scan lists.
var treeListCases = []containerCase{
	{"list", treeLists},
	{"long list", treeLongList},
	{"other files", treeIrregular},
	{"missing directory", treeMissing},
	{"empty", treeEmpty},
}

// oddNames are names that a tenant may give. Their order is not that of their
// paths' bytes.
var oddNames = []string{
	"a", "a-b", "a.b", "a b", " ", "-rf", ".hidden", "new\nline", "\xff\xfe", "ä", "quote\"'", "back\\slash", "\x01", "*",
	"name-" + strings.Repeat("x", maxFileName-len("name-")),
}

// maxFileName is how long a name may be.
const maxFileName = 255

// requireWalk asserts that a list has what the container has, and returns that.
func (c *container) requireWalk(t *testing.T, dir string, got []tree.Entry) []walked {
	t.Helper()
	want := c.walk(t, c.command("walk", c.path(t, dir)))
	uid, gid := c.ownIDs(t)
	require.Len(t, got, len(want))
	for i, w := range want {
		e := w.entry
		e.Kind, e.Mode = tree.Kind(w.kind[0]), w.mode&0o1777
		if e.Owner == uid {
			e.Owner = tree.OwnUser
		}
		if e.Group == gid {
			e.Group = tree.OwnGroup
		}
		switch e.Kind {
		case tree.Link:
			e.Mode, e.Size = 0, got[i].Size
		case tree.Dir:
			e.Size = got[i].Size
		}
		e.Stamp = got[i].Stamp
		require.True(t, e.ModTime.Equal(got[i].ModTime), "%q: %s and %s", e.Path, e.ModTime, got[i].ModTime)
		e.ModTime = got[i].ModTime
		require.Equal(t, e, got[i])
	}
	return want
}

// ownIDs returns the ids of the container's user.
func (c *container) ownIDs(t *testing.T) (uid, gid int64) {
	t.Helper()
	_, err := fmt.Sscanf(c.mustExec(t, "id"), "uid=%d gid=%d", &uid, &gid)
	require.NoError(t, err)
	return uid, gid
}

// A list has everything that there is, in order, with its metadata.
func treeLists(t *testing.T, c *container) {
	dir := sub(t, "top")
	c.mustExec(t, "mkdir", dirOf(t)+"/top", "755")
	var items []treeItem
	for _, parent := range []string{"", "a/", "a-c/", "d/e/f/"} {
		for i, name := range oddNames {
			item := treeFile(parent+name, strings.Repeat("x", i))
			item.Mode = []uint32{0o644, 0o600, 0o755, 0o1777, 0o400}[i%5]
			if parent+name != "a" { // it is a directory
				items = append(items, item)
			}
		}
	}
	items = append(items, treeDir("a", 0o755), treeDir("d", 0o750), treeDir("d/e", 0o1777), treeDir("empty", 0o711),
		treeLink("link", "a/a"), treeLink("dangling", "/no/such/file"), treeLink("odd", "\xff\n "+strings.Repeat("y", 300)))
	c.fill(t, dir, items...)
	c.mustExec(t, "write", dirOf(t)+"/top/d/e/written", "from inside")
	c.mustExec(t, "mkdir", dirOf(t)+"/top/d/e/made", "1777")
	got := c.list(t, dir)
	c.requireWalk(t, dir, got)
	byPath := make(map[string]tree.Entry)
	for _, e := range got {
		byPath[e.Path] = e
	}
	for _, i := range items {
		e, ok := byPath[i.Path]
		require.True(t, ok, "%q", i.Path)
		require.Equal(t, i.Kind, e.Kind, "%q", i.Path)
		require.Equal(t, i.Mode, e.Mode, "%q", i.Path)
		require.Equal(t, i.Target, e.Target, "%q", i.Path)
		require.Equal(t, [2]int64{tree.OwnUser, tree.OwnGroup}, [2]int64{e.Owner, e.Group}, "%q", i.Path)
		if i.Path != "d/e" { // to which something was added
			require.True(t, treeTime.Equal(e.ModTime), "%q: %s", i.Path, e.ModTime)
		}
	}
}

// A list that is larger than any buffer is complete.
func treeLongList(t *testing.T, c *container) {
	count := 20_000
	if isUnsupported(t, c.Limitations.NoProcesses || c.Limitations.NoKernel, "to list many files fast") {
		count = 1000
	}
	items := []treeItem{treeDir("many", 0o755)}
	for i := range count {
		items = append(items, treeFile(fmt.Sprintf("many/%s-%d", strings.Repeat("n", 100), i), ""))
	}
	stamps := c.fill(t, sub(t, ""), items...)
	require.Len(t, stamps, count)
	got := c.list(t, sub(t, ""))
	require.Len(t, got, len(items))
	for i, e := range got {
		require.Equal(t, items[i].Path, e.Path)
	}
}

// What is not a file, a directory or a link is left out, and nothing waits for it.
func treeIrregular(t *testing.T, c *container) {
	if isUnsupported(t, c.Limitations.NoKernel, "to have pipes") {
		return
	}
	c.mustExec(t, "mkfifo", dirOf(t)+"/pipe")
	c.mustExec(t, "write", dirOf(t)+"/z", "x")
	got := c.list(t, sub(t, ""))
	require.Len(t, got, 1)
	require.Equal(t, "z", got[0].Path)
	require.Equal(t, "x", c.readAll(t, sub(t, ""))["z"].text)
}

func treeMissing(t *testing.T, c *container) {
	_, err := c.rt.ScanTree(t.Context(), c.id, sub(t, "none"), tree.ScanOptions{})
	require.ErrorIs(t, err, runtime.ErrFileNotFound)
	_, err = c.rt.FillTree(t.Context(), c.id, sub(t, "none"), 0, nil)
	require.ErrorIs(t, err, runtime.ErrFileNotFound)
	c.mustExec(t, "write", dirOf(t)+"/file", "x")
	_, err = c.rt.ScanTree(t.Context(), c.id, sub(t, "file"), tree.ScanOptions{})
	require.Error(t, err)
	_, err = c.rt.FillTree(t.Context(), c.id, sub(t, "file"), 0, nil)
	require.Error(t, err)
	_, err = c.rt.ScanTree(t.Context(), NewID(), "/data", tree.ScanOptions{})
	require.ErrorIs(t, err, runtime.ErrNotFound)
	_, err = c.rt.FillTree(t.Context(), NewID(), "/data", 0, nil)
	require.ErrorIs(t, err, runtime.ErrNotFound)
}

func treeEmpty(t *testing.T, c *container) {
	require.Empty(t, c.list(t, sub(t, "")))
	require.Empty(t, c.fill(t, sub(t, "")), "closing without writing")
	require.Empty(t, c.list(t, sub(t, "")))
	w, err := c.rt.FillTree(t.Context(), c.id, sub(t, ""), 0, nil)
	require.NoError(t, err, "without a function for stamps")
	require.NoError(t, treeFile("file", "x").put(w))
	require.NoError(t, w.Close())
	w.Abort(nil) // it has ended
	require.Equal(t, "x", c.mustExec(t, "read", dirOf(t)+"/file"))
}
