package runtimetest

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/tree"
)

// treeCases tests ScanTree and FillTree.
func treeCases(t *testing.T, s *suite) {
	c := s.start(t)
	for _, k := range slices.Concat(treeListCases, treeReadCases, treeStampCases, treeWriteCases) {
		t.Run(k.name, func(t *testing.T) {
			s.begin(t)
			c.mustExec(t, "mkdir", dirOf(t), "755")
			k.run(t, c)
		})
	}
	for _, k := range slices.Concat(treeEndCases, treeHostileCases) {
		t.Run(k.name, func(t *testing.T) {
			s.begin(t)
			t.Parallel()
			k.run(t, s)
		})
	}
}

// dirOf returns the directory of a case, in a container that the others use as
// well.
func dirOf(t *testing.T) string {
	name := t.Name()
	return "trees-" + strings.Trim(name[strings.LastIndex(name, "/")+1:], "_")
}

// sub returns the path of something in the directory of a case.
func sub(t *testing.T, name string) string { return path.Join("/data", dirOf(t), name) }

// treeTime is the modification time of what the cases write.
var treeTime = time.Unix(1700000000, 123456789)

// treeItem is an entry to write, or a path to remove.
type treeItem struct {
	tree.Entry
	body   string
	hole   int64 // after the body, which follows again
	remove bool
}

func treeFile(path, body string) treeItem {
	return treeItem{Entry: tree.Entry{
		Path: path, Kind: tree.File, Mode: 0o644, Owner: tree.OwnUser, Group: tree.OwnGroup,
		Size: int64(len(body)), ModTime: treeTime,
	}, body: body}
}

func treeDir(path string, mode uint32) treeItem {
	return treeItem{Entry: tree.Entry{
		Path: path, Kind: tree.Dir, Mode: mode, Owner: tree.OwnUser, Group: tree.OwnGroup, ModTime: treeTime,
	}}
}

func treeLink(path, target string) treeItem {
	return treeItem{Entry: tree.Entry{
		Path: path, Kind: tree.Link, Owner: tree.OwnUser, Group: tree.OwnGroup, ModTime: treeTime, Target: target,
	}}
}

func treeRemoval(path string) treeItem { return treeItem{Entry: tree.Entry{Path: path}, remove: true} }

// put writes one item.
func (i treeItem) put(w tree.Writer) error {
	if i.remove {
		return w.Remove(i.Path)
	}
	if err := w.Create(i.Entry); err != nil || i.Kind != tree.File {
		return err
	}
	const piece = 1 << 20
	for body := range slices.Chunk([]byte(i.body), piece) {
		if err := w.Write(body); err != nil {
			return err
		}
	}
	if i.hole == 0 {
		return nil
	}
	if err := w.Hole(i.hole); err != nil {
		return err
	}
	return w.Write([]byte(i.body))
}

// stampLog collects the stamps that a writer reports.
type stampLog struct {
	mu     sync.Mutex
	stamps []tree.Stamp
}

func (l *stampLog) add(stamps []tree.Stamp) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stamps = append(l.stamps, stamps...)
}

func (l *stampLog) all() []tree.Stamp {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.stamps)
}

// fillAll begins a tree, writes items in order, and closes or aborts it.
func (c *container) fillAll(t *testing.T, dir string, items ...treeItem) ([]tree.Stamp, error) {
	t.Helper()
	slices.SortStableFunc(items, func(a, b treeItem) int { return tree.Compare(a.Path, b.Path) })
	var log stampLog
	w, err := c.rt.FillTree(t.Context(), c.id, dir, 0, log.add)
	if err != nil {
		return nil, err
	}
	for _, i := range items {
		if err := i.put(w); err != nil {
			err = fmt.Errorf("%q: %w", i.Path, err)
			w.Abort(err)
			return nil, err
		}
	}
	err = w.Close()
	return log.all(), err
}

// fill writes items, which must succeed, and returns the stamps of their files.
func (c *container) fill(t *testing.T, dir string, items ...treeItem) map[string]tree.Stamp {
	t.Helper()
	stamps, err := c.fillAll(t, dir, items...)
	require.NoError(t, err, "FillTree")
	byPath := make(map[string]tree.Stamp)
	for _, i := range items {
		if i.Kind != tree.File || i.remove {
			continue
		}
		require.Greater(t, len(stamps), len(byPath), "each file has a stamp")
		byPath[i.Path] = stamps[len(byPath)]
	}
	require.Len(t, stamps, len(byPath), "nothing else has a stamp")
	return byPath
}

// scanTree opens a scan, which is closed when the test ends.
func (c *container) scanTree(t *testing.T, dir string) tree.Scan {
	t.Helper()
	scan, err := c.rt.ScanTree(t.Context(), c.id, dir, tree.ScanOptions{Live: true})
	require.NoError(t, err, "ScanTree")
	t.Cleanup(func() { _ = scan.Close() })
	return scan
}

// list returns all entries of a directory.
func (c *container) list(t *testing.T, dir string) []tree.Entry {
	t.Helper()
	scan := c.scanTree(t, dir)
	var all []tree.Entry
	for {
		entries, err := scan.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err, "Next")
		require.NotEmpty(t, entries)
		all = append(all, entries...)
	}
	require.NoError(t, scan.Close())
	for i := range all[min(1, len(all)):] {
		require.Negative(t, tree.Compare(all[i].Path, all[i+1].Path), "%q and %q", all[i].Path, all[i+1].Path)
	}
	return all
}

// treeContent is what a scan has read of a file.
type treeContent struct {
	as   tree.Entry
	text string // if it is not large
	data int64  // bytes that were sent
	size int64  // with holes
}

// readContent reads all of a file's content.
func readContent(as tree.Entry, content tree.Content) (treeContent, error) {
	const large = 32 << 20
	var text strings.Builder
	all := treeContent{as: as}
	for {
		data, hole, err := content.Next()
		if errors.Is(err, io.EOF) {
			all.text = text.String()
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all.data += int64(len(data))
		all.size += int64(len(data)) + hole
		if all.size < large {
			text.Write(data)
			text.Write(make([]byte, hole))
		}
	}
}

// read reads the files of a directory that are selected, by their paths.
func (c *container) readTrees(t *testing.T, dir string, selected func(tree.Entry) bool) map[string]treeContent {
	t.Helper()
	scan := c.scanTree(t, dir)
	found := make(map[string]treeContent)
	for {
		entries, err := scan.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err, "Next")
		var indexes []int
		for i, e := range entries {
			if e.Kind == tree.File && selected(e) {
				indexes = append(indexes, i)
			}
		}
		paths := make([]string, len(entries))
		for i, e := range entries {
			paths[i] = strings.Clone(e.Path)
		}
		err = scan.Read(indexes, func(index int, as tree.Entry, content tree.Content) error {
			require.Contains(t, indexes, index)
			require.Equal(t, paths[index], as.Path)
			all, err := readContent(as, content)
			found[as.Path] = all
			return err
		})
		require.NoError(t, err, "Read")
	}
	require.NoError(t, scan.Close())
	for path, all := range found {
		require.Equal(t, all.as.Size, all.size, "%q: its extents add up to its size", path)
	}
	return found
}

// readAll reads all files of a directory.
func (c *container) readAll(t *testing.T, dir string) map[string]treeContent {
	t.Helper()
	return c.readTrees(t, dir, func(tree.Entry) bool { return true })
}

// walked is a line of `box walk`.
type walked struct {
	entry     tree.Entry // owner and group as they are
	kind      string
	mode      uint32 // with all bits
	allocated int64
}

// walk lists a directory from inside the container, as the user.
func (c *container) walk(t *testing.T, cmd runtime.Command) []walked {
	t.Helper()
	result, err := c.exec(t, cmd)
	require.NoError(t, err, "%q", cmd.Args)
	require.True(t, result.OK(), "%q: %+v", cmd.Args, result)
	require.False(t, result.Stdout.Truncated, "the case has a small tree")
	var all []walked
	for line := range strings.Lines(result.Stdout.String()) {
		var w walked
		var at int64
		_, err := fmt.Sscanf(line, "%q %s %o %d %d %d %d %q %d", &w.entry.Path, &w.kind, &w.mode, &w.entry.Owner,
			&w.entry.Group, &w.entry.Size, &at, &w.entry.Target, &w.allocated)
		require.NoError(t, err, line)
		w.entry.ModTime = time.Unix(0, at)
		all = append(all, w)
	}
	return all
}
