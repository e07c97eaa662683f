package runtimetest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/tree"
)

// treeReadCases are about the content of files.
var treeReadCases = []containerCase{
	{"read", treeReads},
	{"changed before read", treeChangedBeforeRead},
	{"changed while read", treeChangedWhileRead},
	{"sparse", treeSparse},
}

// A scan reads the files that its caller asks for, and no others.
func treeReads(t *testing.T, c *container) {
	want := map[string]string{
		"empty": "", "small": "text", "dir/large": strings.Repeat("0123456789abcdef", 5<<16), "dir/zeros": strings.Repeat("\x00", 1<<20),
		"mixed": strings.Repeat("x", 5000) + strings.Repeat("\x00", 1<<20) + "y", "\xff": "odd",
	}
	var items []treeItem
	for path, text := range want {
		items = append(items, treeFile(path, text))
	}
	c.fill(t, sub(t, ""), items...)
	for name, selected := range map[string]func(tree.Entry) bool{
		"all": func(tree.Entry) bool { return true }, "none": func(tree.Entry) bool { return false },
		"some": func(e tree.Entry) bool { return len(e.Path) > 5 },
	} {
		got := c.readTrees(t, sub(t, ""), selected)
		for path, text := range want {
			all, ok := got[path]
			require.Equal(t, selected(tree.Entry{Path: path}), ok, "%s: %q", name, path)
			require.True(t, !ok || all.text == text, "%s: %q is as it was", name, path)
		}
	}
	// What the function does not read is skipped, and its error is returned.
	scan := c.scanTree(t, sub(t, ""))
	entries, err := scan.Next()
	require.NoError(t, err)
	var indexes []int
	for i, e := range entries {
		if e.Kind == tree.File {
			indexes = append(indexes, i)
		}
	}
	require.Len(t, indexes, len(want), "few entries come at once")
	called := 0
	require.NoError(t, scan.Read(indexes, func(_ int, as tree.Entry, content tree.Content) error {
		called++
		if called%2 == 0 {
			return nil
		}
		_, _, err := content.Next()
		if as.Size > 0 {
			require.NoError(t, err)
		}
		return nil
	}))
	require.Equal(t, len(want), called)
	require.NoError(t, scan.Close())
	require.NoError(t, scan.Close(), "again")

	scan = c.scanTree(t, sub(t, ""))
	_, err = scan.Next()
	require.NoError(t, err)
	refused := errors.New("refused")
	require.ErrorIs(t, scan.Read(indexes, func(int, tree.Entry, tree.Content) error { return refused }), refused)
	require.NoError(t, scan.Close())
}

// A file is read as it is when it is opened; one that has gone is left out.
func treeChangedBeforeRead(t *testing.T, c *container) {
	names := []string{"becomes-dir", "becomes-link", "gone", "grown", "kept", "replaced", "shrunk"}
	for _, name := range names {
		c.mustExec(t, "write", dirOf(t)+"/"+name, "0123456789")
	}
	c.mustExec(t, "write", dirOf(t)+"/other/file", "other content")
	scan := c.scanTree(t, sub(t, ""))
	entries, err := scan.Next()
	require.NoError(t, err)
	require.Len(t, entries, len(names)+2)
	var indexes []int
	for i, e := range entries {
		if e.Kind == tree.File {
			indexes = append(indexes, i)
		}
	}
	in := func(name string) string { return dirOf(t) + "/" + name }
	for _, args := range [][]string{
		{"remove", in("becomes-dir")}, {"mkdir", in("becomes-dir"), "755"},
		{"remove", in("becomes-link")}, {"link", "kept", in("becomes-link")}, {"remove", in("gone")},
		{"append", in("grown"), "more"}, {"rename", in("other/file"), in("replaced")}, {"truncate", in("shrunk"), "3"},
	} {
		c.mustExec(t, args...)
	}
	got := make(map[string]string)
	err = scan.Read(indexes, func(_ int, as tree.Entry, content tree.Content) error {
		all, err := readContent(as, content)
		require.Equal(t, as.Size, all.size, as.Path)
		got[as.Path] = all.text
		return err
	})
	require.NoError(t, err)
	want := map[string]string{
		"grown": "0123456789more", "kept": "0123456789", "other/file": "", "replaced": "other content", "shrunk": "012",
	}
	delete(want, "other/file") // it was moved away
	require.Equal(t, want, got)
}

// A file that changes while it is read has the size that it had.
func treeChangedWhileRead(t *testing.T, c *container) {
	const size = 8 << 20
	for _, how := range [][]string{{"append", "more"}, {"truncate", "5"}, {"remove"}} {
		name := how[0]
		c.fill(t, sub(t, ""), treeFile(name, strings.Repeat("x", size)), treeFile(name+"-after", "after"))
		scan := c.scanTree(t, sub(t, ""))
		entries, err := scan.Next()
		require.NoError(t, err)
		var indexes []int
		for i, e := range entries {
			if e.Path == name || e.Path == name+"-after" {
				indexes = append(indexes, i)
			}
		}
		got := make(map[string]treeContent)
		require.NoError(t, scan.Read(indexes, func(_ int, as tree.Entry, content tree.Content) error {
			if as.Path == name {
				c.mustExec(t, append([]string{name, dirOf(t) + "/" + name}, how[1:]...)...)
			}
			all, err := readContent(as, content)
			got[as.Path] = all
			return err
		}), name)
		require.EqualValues(t, size, got[name].as.Size, name)
		require.EqualValues(t, size, got[name].size, name)
		require.Empty(t, strings.Trim(strings.TrimLeft(got[name].text, "x"), "\x00"), "%s: then zeros", name)
		require.Equal(t, "after", got[name+"-after"].text, name)
		require.NoError(t, scan.Close())
	}
}

// A hole is neither sent nor stored.
func treeSparse(t *testing.T, c *container) {
	const size, text, most = int64(1 << 30), "the text at its ends", int64(4 << 20)
	from, to := dirOf(t)+"/from", dirOf(t)+"/to"
	c.mustExec(t, "mkdir", from, "755")
	c.mustExec(t, "mkdir", to, "755")
	c.mustExec(t, "sparse", from+"/file", strconv.FormatInt(size, 10), text)
	if c.walk(t, c.command("walk", c.path(t, "/data/"+from)))[0].allocated > most {
		t.Log("the filesystem of the volume has no holes")
		return
	}
	got := c.readAll(t, "/data/"+from)["file"]
	require.Equal(t, size, got.size)
	require.Less(t, got.data, most, "bytes that were sent")
	item := treeFile("file", text)
	item.hole, item.Size = size-2*int64(len(text)), size
	end := treeFile("hole-at-end", "")
	end.Size = size
	w, err := c.rt.FillTree(t.Context(), c.id, "/data/"+to, 0, nil)
	require.NoError(t, err)
	require.NoError(t, item.put(w))
	require.NoError(t, w.Create(end.Entry))
	require.NoError(t, w.Hole(size))
	require.NoError(t, w.Close())
	for _, line := range c.walk(t, c.command("walk", c.path(t, "/data/"+to))) {
		require.Equal(t, size, line.entry.Size)
		require.LessOrEqual(t, line.allocated, most, line.entry.Path)
	}
	require.Equal(t, text+text, c.mustExec(t, "ends", to+"/file", fmt.Sprint(len(text))))
}
