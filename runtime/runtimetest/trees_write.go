package runtimetest

import (
	"archive/tar"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/tree"
)

// treeWriteCases are about what a writer does.
var treeWriteCases = []containerCase{
	{"replace", fillReplaces},
	{"remove", fillRemoves},
	{"parents", fillParents},
	{"rejected paths", fillBadPaths},
	{"rejected order", fillBadOrder},
	{"rejected content", fillBadContent},
	{"through links", fillThroughLinks},
	{"modes and owners", fillModes},
	{"abort", fillAborts},
	{"stale fence", fillStaleFence},
}

// kinds returns the type of everything that is below a directory, and the content of
// files.
func (c *container) kinds(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, e := range c.list(t, dir) {
		all[e.Path] = string(e.Kind) + ":" + e.Target
	}
	for path, content := range c.readAll(t, dir) {
		all[path] = "f:" + content.text
	}
	return all
}

// An entry replaces what has its name. Only a directory keeps its contents when it is
// replaced by a directory.
func fillReplaces(t *testing.T, c *container) {
	old := []treeItem{
		treeFile("dir-dir/kept", "kept"), treeFile("dir-file/gone/gone", "x"), treeFile("dir-link/gone", "x"),
		treeFile("file-dir", "x"), treeFile("file-file", "old text"), treeFile("file-link", "x"),
		treeLink("link-dir", "target"), treeLink("link-file", "target/kept"), treeLink("link-link", "target"),
		treeFile("target/kept", "kept"), treeDir("dir-dir", 0o700),
	}
	c.fill(t, sub(t, ""), old...)
	c.fill(t, sub(t, ""),
		treeDir("dir-dir", 0o751), treeFile("dir-file", "new"), treeLink("dir-link", "new"),
		treeFile("file-dir/new", "new"), treeDir("file-dir", 0o755), treeFile("file-file", "new"), treeLink("file-link", "new"),
		treeFile("link-dir/new", "new"), treeDir("link-dir", 0o755), treeFile("link-file", "new"), treeLink("link-link", "new"),
	)
	require.Equal(t, map[string]string{
		"dir-dir": "d:", "dir-dir/kept": "f:kept", "dir-file": "f:new", "dir-link": "l:new",
		"file-dir": "d:", "file-dir/new": "f:new", "file-file": "f:new", "file-link": "l:new",
		"link-dir": "d:", "link-dir/new": "f:new", "link-file": "f:new", "link-link": "l:new",
		"target": "d:", "target/kept": "f:kept",
	}, c.kinds(t, sub(t, "")))
	require.Equal(t, "dir 751", strings.Join(strings.Fields(c.mustExec(t, "stat", dirOf(t)+"/dir-dir"))[:2], " "))
	for _, e := range c.list(t, sub(t, "")) {
		require.True(t, e.Path == "target" || treeTime.Equal(e.ModTime), "%q: %s", e.Path, e.ModTime)
	}
}

// Remove removes everything below a name, follows no link, and is nil when there is
// nothing.
func fillRemoves(t *testing.T, c *container) {
	c.fill(t, sub(t, ""),
		treeFile("dir/a/b/c", "x"), treeLink("dir/a/link", "../../kept"), treeFile("dir/kept", "x"), treeFile("file", "x"),
		treeFile("kept/file", "kept"), treeLink("link", "kept"), treeFile("whole/a/b", "x"))
	c.mustExec(t, "mkdir", dirOf(t)+"/whole/closed", "0")
	c.fill(t, sub(t, ""), treeRemoval("dir/a"), treeRemoval("dir/none"), treeRemoval("file"), treeRemoval("file/below"),
		treeRemoval("link"), treeRemoval("kept/file/below"), treeRemoval("none/at/all"), treeRemoval("whole"))
	require.Equal(t, map[string]string{
		"dir": "d:", "dir/kept": "f:x", "kept": "d:", "kept/file": "f:kept",
	}, c.kinds(t, sub(t, "")))
	// What was removed can be created, in the same tree.
	c.fill(t, sub(t, ""), treeRemoval("dir"), treeFile("dir/new", "new"), treeRemoval("dir/none"))
	require.Equal(t, map[string]string{"dir": "d:", "dir/new": "f:new", "kept": "d:", "kept/file": "f:kept"}, c.kinds(t, sub(t, "")))
}

// A missing parent is created, for the container's user.
func fillParents(t *testing.T, c *container) {
	deep := strings.Repeat(strings.Repeat("d", 200)+"/", 15) + "file"
	c.fill(t, sub(t, ""), treeFile("made/by/us", "x"), treeFile(deep, "deep"), treeLink("made/too/link", "x"), treeDir("made/a/dir", 0o700))
	want := strings.Fields(c.mustExec(t, "stat", "."))
	for _, path := range []string{"made", "made/by", "made/by/us", "made/too", "made/too/link", "made/a/dir"} {
		got := strings.Fields(c.mustExec(t, "stat", dirOf(t)+"/"+path))
		require.Equal(t, want[2:4], got[2:4], "owner of %s", path)
	}
	require.Equal(t, "deep", c.readAll(t, sub(t, ""))[deep].text)
	c.mustExec(t, "append", dirOf(t)+"/made/by/us", "y")
}

// A path that leads out of the directory, or is not clean, is rejected.
func fillBadPaths(t *testing.T, c *container) {
	c.fill(t, sub(t, ""), treeFile("outside/kept", "kept"), treeDir("jail", 0o755))
	for _, path := range []string{
		"", ".", "..", "../outside/f", "a/../../outside/f", "/data/outside/f", "a/", "a//b", "./a", "a/.", "a/../b", "a\x00b", "/",
		strings.Repeat("x", 256), strings.Repeat("x/", 3000) + "x",
	} {
		for _, item := range []treeItem{treeFile(path, "x"), treeDir(path, 0o755), treeLink(path, "x"), treeRemoval(path)} {
			_, err := c.fillAll(t, sub(t, "jail"), item)
			require.Error(t, err, "%q", path)
			require.NotErrorIs(t, err, runtime.ErrUnavailable, "%q", path)
			require.NotErrorIs(t, err, runtime.ErrTainted, "%q", path)
		}
	}
	_, err := c.fillAll(t, sub(t, "jail"), treeRemoval("../outside"))
	require.Error(t, err)
	require.Equal(t, map[string]string{"jail": "d:", "outside": "d:", "outside/kept": "f:kept"}, c.kinds(t, sub(t, "")))
}

// Paths ascend: the writer may forget what it has left. Nothing is below a file or a
// link of the same tree.
func fillBadOrder(t *testing.T, c *container) {
	for _, k := range [][]treeItem{
		{treeFile("b", "x"), treeFile("a", "x")}, {treeFile("a", "x"), treeFile("a", "x")}, {treeFile("a.b", "x"), treeFile("a/b", "x")},
		{treeRemoval("b"), treeFile("a", "x")}, {treeFile("b", "x"), treeRemoval("a")},
		{treeFile("a", "x"), treeFile("a/b", "x")}, {treeLink("a", "x"), treeDir("a/b", 0o755)}, {treeLink("a", "x"), treeRemoval("a/b")},
	} {
		w, err := c.rt.FillTree(t.Context(), c.id, sub(t, ""), 0, nil)
		require.NoError(t, err)
		require.NoError(t, k[0].put(w))
		err = k[1].put(w)
		if err == nil {
			err = w.Close()
		}
		require.Error(t, err, "%q after %q", k[1].Path, k[0].Path)
		w.Abort(err)
	}
}

// The content has the file's size, and only files have content.
func fillBadContent(t *testing.T, c *container) {
	five := treeFile("file", "12345").Entry
	for name, write := range map[string]func(w tree.Writer) error{
		"too little":        func(w tree.Writer) error { return w.Write([]byte("1234")) },
		"nothing":           func(tree.Writer) error { return nil },
		"too much":          func(w tree.Writer) error { return w.Write([]byte("123456")) },
		"too much later":    func(w tree.Writer) error { return errors.Join(w.Write([]byte("12345")), w.Write([]byte("6"))) },
		"too large a hole":  func(w tree.Writer) error { return w.Hole(6) },
		"a negative hole":   func(w tree.Writer) error { return errors.Join(w.Write([]byte("12345")), w.Hole(-1)) },
		"too little before": func(w tree.Writer) error { return w.Create(treeFile("next", "").Entry) },
		"content of a directory": func(w tree.Writer) error {
			return errors.Join(w.Hole(5), w.Create(treeDir("next", 0o755).Entry), w.Write([]byte("x")))
		},
		"a negative size": func(w tree.Writer) error {
			e := treeFile("next", "").Entry
			e.Size = -1
			return errors.Join(w.Hole(5), w.Create(e))
		},
		"an unknown kind": func(w tree.Writer) error {
			return errors.Join(w.Hole(5), w.Create(tree.Entry{Path: "next", Kind: 'c', Owner: tree.OwnUser, Group: tree.OwnGroup}))
		},
	} {
		w, err := c.rt.FillTree(t.Context(), c.id, sub(t, ""), 0, nil)
		require.NoError(t, err)
		require.NoError(t, w.Create(five))
		err = write(w)
		if err == nil {
			err = w.Close()
		}
		require.Error(t, err, name)
		require.Error(t, w.Close(), "%s: the tree is not complete", name)
		w.Abort(err)
	}
	require.NotContains(t, c.kinds(t, sub(t, "")), "next/x")
}

// No link leads out of the directory: neither one that was there, which a directory
// replaces, nor one of the same tree.
func fillThroughLinks(t *testing.T, c *container) {
	before := []treeItem{treeFile("outside/kept", "kept"), treeLink("jail/absolute", c.path(t, sub(t, "outside"))),
		treeLink("jail/relative", "../outside"), treeLink("jail/up", "..")}
	c.fill(t, sub(t, ""), before...)
	outside := c.walk(t, c.command("walk", c.path(t, sub(t, "outside"))))
	for _, items := range [][]treeItem{
		{treeFile("absolute/f", "x")}, {treeFile("relative/f", "x")}, {treeFile("up/outside/f", "x")}, {treeFile("relative/new/f", "x")},
		{treeDir("relative/kept", 0o700)}, {treeLink("relative/kept", "x")}, {treeFile("relative/kept", "x")},
		{treeLink("new", "../outside"), treeFile("new/f", "x")}, {treeLink("new", "../outside"), treeRemoval("new/kept")},
		{treeRemoval("absolute/kept")}, {treeRemoval("relative/kept")}, {treeRemoval("up/outside")}, {treeRemoval("up/outside/kept")},
		{treeRemoval("relative")}, {treeRemoval("up")},
	} {
		_, err := c.fillAll(t, sub(t, "jail"), items...)
		require.Equal(t, len(items) == 1, err == nil, "%q: %v", items[len(items)-1].Path, err)
		if last := items[len(items)-1]; err == nil && !last.remove {
			require.Contains(t, c.kinds(t, sub(t, "jail")), last.Path)
		}
		require.Equal(t, outside, c.walk(t, c.command("walk", c.path(t, sub(t, "outside")))), "%q", items[len(items)-1].Path)
		c.fill(t, sub(t, ""), before[1:]...)
	}
}

// A tree gives no one rights: it sets neither setuid nor setgid, and the user that
// supervises the container owns nothing.
func fillModes(t *testing.T, c *container) {
	for name, change := range map[string]func(*tree.Entry){
		"setuid":   func(e *tree.Entry) { e.Mode = 0o4755 },
		"setgid":   func(e *tree.Entry) { e.Mode = 0o2755 },
		"both":     func(e *tree.Entry) { e.Mode = 0o7777 },
		"type":     func(e *tree.Entry) { e.Mode = 0o140755 },
		"reserved": func(e *tree.Entry) { e.Owner = runtime.ReservedUser },
		"group":    func(e *tree.Entry) { e.Group = runtime.ReservedUser },
		"negative": func(e *tree.Entry) { e.Owner, e.Group = -2, -3 },
		"large":    func(e *tree.Entry) { e.Owner, e.Group = 1<<32+runtime.ReservedUser, 1<<32 },
		"keep":     func(e *tree.Entry) { e.Owner, e.Group = 1<<32-1, 1<<32-1 }, // for chown this means: as it is
		"another":  func(e *tree.Entry) { e.Owner, e.Group = 1234, 4321 },
	} {
		for _, item := range []treeItem{treeFile("file", "x"), treeDir("dir", 0o755), treeLink("link", "file")} {
			item.Path = name + "-" + item.Path
			mode := item.Mode
			if change(&item.Entry); item.Kind == tree.Link {
				item.Mode = mode
			}
			if _, err := c.fillAll(t, sub(t, ""), item); err != nil {
				require.NotErrorIs(t, err, runtime.ErrTainted, item.Path)
				require.NotEqual(t, "another", name, "%v", err)
				t.Logf("%s: %v", item.Path, err)
			}
		}
	}
	uid, gid := c.ownIDs(t)
	for _, w := range c.walk(t, c.command("walk", c.path(t, sub(t, "")))) {
		require.Zero(t, w.mode&0o6000, "%q has mode %o", w.entry.Path, w.mode)
		another := strings.HasPrefix(w.entry.Path, "another") && w.entry.Owner == 1234 && w.entry.Group == 4321
		require.True(t, another || w.entry.Owner == uid && w.entry.Group == gid, "%q belongs to %d:%d", w.entry.Path, w.entry.Owner, w.entry.Group)
	}
}

// Nothing works on a tree that was aborted, or on a scan that was closed.
func fillAborts(t *testing.T, c *container) {
	marker := newMarker()
	c.mustExec(t, "mkdir", dirOf(t)+"/"+marker, "755")
	cause := errors.New("the caller has given up")
	var log stampLog
	w, err := c.rt.FillTree(t.Context(), c.id, sub(t, marker), 0, log.add)
	require.NoError(t, err)
	require.NoError(t, treeFile("first", "x").put(w))
	e := treeFile("second", strings.Repeat("y", 1<<20)).Entry
	require.NoError(t, w.Create(e))
	require.NoError(t, w.Write([]byte("yyy")))
	w.Abort(cause)
	w.Abort(cause)
	reported := log.all()
	require.Error(t, w.Create(treeFile("third", "").Entry))
	require.Error(t, w.Close())
	c.awaitNoProcess(t, marker)
	require.Equal(t, reported, log.all(), "no stamp is reported after Abort")
	require.NotContains(t, c.kinds(t, sub(t, marker)), "third")
	c.fill(t, sub(t, marker), treeFile("third", "z"))
	got := c.kinds(t, sub(t, marker))
	require.Equal(t, "f:z", got["third"])

	scan := c.scanTree(t, sub(t, marker))
	_, err = scan.Next()
	require.NoError(t, err)
	require.NoError(t, scan.Close())
	_, err = scan.Next()
	require.Error(t, err)
	c.awaitNoProcess(t, marker)
}

// A flow that is not responsible for the container writes nothing.
func fillStaleFence(t *testing.T, c *container) {
	c = c.suite.start(t)
	require.NoError(t, c.rt.Restart(t.Context(), c.id, 7))
	_, err := c.rt.FillTree(t.Context(), c.id, "/data", 6, nil)
	require.ErrorIs(t, err, runtime.ErrStaleFence)
	w, err := c.rt.FillTree(t.Context(), c.id, "/data", 8, nil)
	require.NoError(t, err)
	require.NoError(t, treeFile("file", "x").put(w))
	require.NoError(t, w.Close())
	_, err = c.rt.FillTree(t.Context(), c.id, "/data", 7, nil)
	require.ErrorIs(t, err, runtime.ErrStaleFence, "it is remembered")
	archive := pack(t, archiveEntry{"f", tar.TypeReg, 0o644, ""})
	require.ErrorIs(t, c.rt.CopyIn(t.Context(), c.id, "/data", 7, archive), runtime.ErrStaleFence)
	c.fill(t, "/data", treeFile("file", "without a flow"))
	require.Equal(t, map[string]string{"file": "f:without a flow"}, c.kinds(t, "/data"))
}
