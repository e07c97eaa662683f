package runtimetest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime/tree"
)

// treeStampCases are about stamps: a file that has the same one has the same
// content.
var treeStampCases = []containerCase{
	{"unchanged", stampUnchanged},
	{"changed", stampChanged},
	{"changed fast", stampChangedFast},
	{"moved", stampMoved},
	{"mapped", stampMapped},
	{"stamps of written files", stampWritten},
}

// stamp returns a file's stamp as soon as it has one. It is zero if the backend
// cannot prove that a file is unchanged.
func (c *container) stamp(t *testing.T, path string) tree.Stamp {
	t.Helper()
	var stamp tree.Stamp
	current := func() bool {
		stamp = tree.Stamp{}
		for _, e := range c.list(t, sub(t, "")) {
			if e.Path == path {
				stamp = e.Stamp
			}
		}
		return !stamp.IsZero()
	}
	if isUnsupported(t, c.Limitations.WipeUnverifiable, "to prove that a file is unchanged") {
		current()
		return stamp
	}
	testenv.AwaitTrue(t, path+" has a stamp", current)
	return stamp
}

func stampUnchanged(t *testing.T, c *container) {
	c.mustExec(t, "write", dirOf(t)+"/file", "x")
	first := c.stamp(t, "file")
	require.Equal(t, first, c.stamp(t, "file"))
	require.Equal(t, "x", c.mustExec(t, "read", dirOf(t)+"/file"))
	c.mustExec(t, "write", dirOf(t)+"/sibling", "x")
	require.Equal(t, first, c.stamp(t, "file"), "reading it, and changing another, changes nothing")
	require.Equal(t, first, c.readAll(t, sub(t, ""))["file"].as.Stamp, "that of the file as it was opened")
	require.Equal(t, first.IsZero(), c.stamp(t, "sibling").IsZero())
	require.True(t, first.IsZero() || first != c.stamp(t, "sibling"))
	for _, e := range c.list(t, "/data") {
		require.True(t, e.Kind == tree.File || e.Stamp.IsZero(), "%q: only files have one", e.Path)
	}
}

// Whatever a tenant does to a file's content: its stamp changes.
func stampChanged(t *testing.T, c *container) {
	changes := [][]string{
		{"write", "next"}, {"append", "more"}, {"truncate", "2"}, {"truncate", "400"},
		{"rewrite"}, {"replace"}, // with the same size and the same times
	}
	before := make([]tree.Stamp, len(changes))
	for i := range changes {
		c.mustExec(t, "write", dirOf(t)+"/"+strconv.Itoa(i), "text")
	}
	for i := range changes {
		before[i] = c.stamp(t, strconv.Itoa(i))
	}
	for i, how := range changes {
		c.mustExec(t, append([]string{how[0], dirOf(t) + "/" + strconv.Itoa(i)}, how[1:]...)...)
	}
	for i, how := range changes {
		after := c.stamp(t, strconv.Itoa(i))
		require.True(t, after.IsZero() || after != before[i], "%q: %+v", how, after)
	}
}

// Changes that follow each other, and the scans, faster than a clock may tick.
func stampChangedFast(t *testing.T, c *container) {
	c.mustExec(t, "write", dirOf(t)+"/file", "text")
	seen := make(map[tree.Stamp]string)
	for range 30 {
		for range 2 {
			got := c.readAll(t, sub(t, ""))["file"]
			if got.as.Stamp.IsZero() {
				continue
			}
			text, known := seen[got.as.Stamp]
			require.True(t, !known || text == got.text, "%+v is that of %q and of %q", got.as.Stamp, text, got.text)
			seen[got.as.Stamp] = got.text
		}
		c.mustExec(t, "rewrite", dirOf(t)+"/file")
	}
}

// Files that take each other's places, alone or with their directories, do not have
// the stamps of those that were there.
func stampMoved(t *testing.T, c *container) {
	for _, name := range []string{"a/file", "b/file"} {
		c.mustExec(t, "write", dirOf(t)+"/"+name, name)
	}
	a, b := c.stamp(t, "a/file"), c.stamp(t, "b/file")
	c.mustExec(t, "exchange", dirOf(t)+"/a", dirOf(t)+"/b")
	require.Equal(t, "b/file", c.mustExec(t, "read", dirOf(t)+"/a/file"))
	moved := c.stamp(t, "a/file")
	require.True(t, moved.IsZero() || moved != a)
	require.Equal(t, b, moved, "it is the other file")
	c.mustExec(t, "exchange", dirOf(t)+"/a/file", dirOf(t)+"/b/file")
	moved = c.stamp(t, "a/file")
	require.True(t, moved.IsZero() || moved != b)
	c.mustExec(t, "rename", dirOf(t)+"/a/file", dirOf(t)+"/b/file")
	moved = c.stamp(t, "b/file")
	require.True(t, moved.IsZero() || moved != b && moved != a)
}

// mappedTime is how long a mapped file is written to: longer than a stamp is withheld
// because of the clock's resolution.
const mappedTime = 3 * time.Second

// A process that has mapped a file writes to it without a system call, and so without
// a change of its times until it is written back, in memory never.
func stampMapped(t *testing.T, c *container) {
	if isUnsupported(t, c.Limitations.NoKernel, "a mapped file") {
		return
	}
	dirs := []string{sub(t, "")}
	if !c.Limitations.NoTmpfs && !c.Limitations.SharedHost {
		dirs = append(dirs, "/tmp/"+dirOf(t))
	}
	for _, dir := range dirs {
		c.requireStampsOfMapped(t, dir)
	}
}

func (c *container) requireStampsOfMapped(t *testing.T, dir string) {
	t.Helper()
	file := c.path(t, dir+"/file")
	c.mustExec(t, "write", file, "text")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // ends with the context
		defer close(done)
		_, _ = c.rt.Exec(ctx, c.id, c.command("scribble", file))
	}()
	defer func() { cancel(); <-done }()
	seen := make(map[tree.Stamp]string)
	texts := make(map[string]bool)
	for began := time.Now(); time.Since(began) < mappedTime || len(texts) < 2; {
		got := c.readAll(t, dir)["file"]
		texts[got.text] = true
		if got.as.Stamp.IsZero() {
			continue
		}
		text, known := seen[got.as.Stamp]
		require.True(t, !known || text == got.text, "%s: %+v is that of %q and of %q", dir, got.as.Stamp, text, got.text)
		seen[got.as.Stamp] = got.text
	}
}

// A writer returns the stamps that a scan finds, in the order of the files.
func stampWritten(t *testing.T, c *container) {
	items := []treeItem{treeDir("dir", 0o755), treeLink("dir/link", "0"), treeLink("link", "dir")}
	for i := range 200 {
		items = append(items, treeFile(fmt.Sprint("dir/", i), strings.Repeat("x", i)), treeFile(fmt.Sprint("missing-", i, "/file"), ""))
	}
	stamps := c.fill(t, sub(t, ""), items...)
	known := 0
	for _, e := range c.list(t, sub(t, "")) {
		if stamp := stamps[e.Path]; !stamp.IsZero() {
			known++
			require.True(t, e.Stamp.IsZero() || e.Stamp == stamp, "%q: %+v and %+v", e.Path, stamp, e.Stamp)
		}
	}
	if !c.Limitations.WipeUnverifiable {
		require.Equal(t, len(stamps), known, "all have one")
		for _, name := range []string{"dir/0", "dir/199", "missing-7/file"} {
			require.Equal(t, stamps[name], c.stamp(t, name), "%q", name)
		}
	}
}
