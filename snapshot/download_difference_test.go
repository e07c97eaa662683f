package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/workload"
)

// change changes files of a container, as its processes could.
func (h *downloads) change(container, dir string, create []stateFile, remove ...string) {
	h.Helper()
	w, err := h.rt.FillTree(h.Context(), container, dir, 0, nil)
	require.NoError(h, err)
	for _, f := range create {
		require.NoError(h, w.Create(f.Entry))
		if f.body != "" {
			require.NoError(h, w.Write([]byte(f.body)))
		}
	}
	require.NoError(h, w.Close())
	for _, name := range remove {
		w, err := h.rt.FillTree(h.Context(), container, dir, 0, nil)
		require.NoError(h, err)
		require.NoError(h, w.Remove(name))
		require.NoError(h, w.Close())
	}
}

// many returns files in directories.
func many(n int, version string) (files []stateFile) {
	for i := range 10 {
		files = append(files, dirOf(fmt.Sprintf("d%d", i)))
	}
	for i := range n {
		files = append(files, fileOf(fmt.Sprintf("d%d/%04d", i%10, i), fmt.Sprint(version, i)))
	}
	return files
}

// with returns files with others in place of those of the same paths.
func with(files []stateFile, others ...stateFile) []stateFile {
	byPath := map[string]stateFile{}
	for _, f := range append(slices.Clone(files), others...) {
		byPath[f.Path] = f
	}
	return slices.Collect(maps.Values(byPath))
}

// A container that holds an older snapshot gets only what differs, and loses
// what the current one does not have.
func TestDownloadDifference(t *testing.T) {
	t.Parallel()
	h := newDownloads(t)
	files := append(many(500, ""), fileOf("large", incompressible(3<<20)))
	h.store("s1", files)
	id, _ := h.fresh()
	moved, other := fileOf("d1/0001", "1"), fileOf("d2/0002", "another")
	moved.Mode = 0o600
	now := with(files, moved, other, fileOf("d9/0019", "91"), fileOf("new", "n"), linkOf("link", "new"))
	now = slices.DeleteFunc(now, func(f stateFile) bool {
		return f.Path == "d3" || strings.HasPrefix(f.Path, "d3/") || f.Path == "d4/0004"
	})
	h.store("s2", now)
	h.change(id, "/data", []stateFile{fileOf("d5/0005", "changed"), dirOf("d6/more"), fileOf("d6/more/x", "x"), fileOf("d7/0007", "7")}, "d8/0008")

	h.rt.ForgetMoved()
	down, err := h.update(id, "s1")
	require.NoError(t, err)
	require.Equal(t, expected(now), h.listed(id, "/data"))
	// The three that differ, the two new ones, and the three that were changed in the
	// container, one of which has the content that it had.
	require.Equal(t, 8, down.MovedFiles)
	require.Equal(t, len(now), down.Files)
	moves := h.rt.Moved()
	require.Equal(t, []int{8, 3}, []int{moves.Created, moves.Removed})
	require.Less(t, moves.BytesWritten, int64(100))

	again, err := h.update(id, "s2")
	require.NoError(t, err)
	require.Zero(t, again.MovedFiles, "the list of the last download is complete")
	require.Equal(t, []any{down.Files, down.Bytes}, []any{again.Files, again.Bytes})
	up, err := h.sink.Upload(t.Context(), h.rt, snapshot.Origin{Owner: h.to(id).Owner, Container: id, Fence: 1})
	require.NoError(t, err)
	require.Equal(t, []any{true, 0}, []any{up.Unchanged, up.MovedFiles}, "an upload reads nothing")
}

// Whatever a container is said to hold, it has the current snapshot afterwards.
func TestDownloadDifferenceOfAnything(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		holds   string
		prepare func(h *downloads, id string)
		moved   int // of the 300 files
	}{
		"the same":          {holds: "s2", moved: 0},
		"an older one":      {holds: "s1", moved: 301},
		"one that has gone": {holds: "s0", moved: 301},
		"another's list":    {holds: "s2", moved: 301, prepare: func(h *downloads, _ string) { h.moveSeen("s2", "x") }},
		"a damaged list":    {holds: "s2", moved: 301, prepare: func(h *downloads, _ string) { h.moveSeen("s2", "") }},
		"an emptied one": {holds: "s2", moved: 311, prepare: func(h *downloads, id string) {
			h.change(id, "/data", nil, "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9", "large")
		}},
		"a file for a tree": {holds: "s2", moved: 31, prepare: func(h *downloads, id string) { h.change(id, "/data", []stateFile{fileOf("d1", "x")}) }},
		"a link for a tree": {holds: "s2", moved: 31, prepare: func(h *downloads, id string) { h.change(id, "/data", []stateFile{linkOf("d1", "/etc")}) }},
		"a tree for a file": {holds: "s2", moved: 1, prepare: func(h *downloads, id string) {
			h.change(id, "/data", []stateFile{dirOf("large"), fileOf("large/x", "")})
		}},
		"another time":       {holds: "s2", moved: 1, prepare: func(h *downloads, id string) { h.change(id, "/data", []stateFile{fileOf("d1/0001", "two 1")}) }},
		"a directory's mode": {holds: "s2", moved: 0, prepare: func(h *downloads, id string) { d := dirOf("d1"); d.Mode = 0o700; h.change(id, "/data", []stateFile{d}) }},
		"more than there was": {holds: "s2", moved: 0, prepare: func(h *downloads, id string) {
			h.change(id, "/data", []stateFile{fileOf("!", ""), fileOf("d5/z", ""), fileOf("zz", "")})
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h := newDownloads(t)
			h.store("s1", append(many(300, "one "), fileOf("large", incompressible(2<<20))))
			files := append(many(300, "two "), fileOf("large", incompressible(2<<20)+"x"))
			h.store("s2", files)
			id, _ := h.fresh()
			if test.prepare != nil {
				test.prepare(h, id)
			}
			down, err := h.update(id, test.holds)
			require.NoError(t, err)
			require.Equal(t, expected(files), h.listed(id, "/data"))
			require.Equal(t, test.moved, down.MovedFiles)
		})
	}
}

// moveSeen gives the list of a snapshot to another container, and damages it.
func (h *downloads) moveSeen(id, container string) {
	for key, data := range h.bucket.Objects() {
		if strings.Contains(key, "/seen/"+id) {
			require.NoError(h, h.bucket.Delete(h.Context(), key))
			if container == "" {
				data[len(data)/2] ^= 1
				h.bucket.Set(key, data[:len(data)/2+1], start)
			}
		}
	}
}

// A list of what was seen is stored for a large state, with what is known at the
// end, and never for a small one or for a download that fails.
func TestDownloadSeenLists(t *testing.T) {
	t.Parallel()
	lists := func(h *downloads) (n int) {
		for key := range h.bucket.Objects() {
			if strings.Contains(key, "/seen/") {
				n++
			}
		}
		return n
	}
	for files, want := range map[int]int{3: 0, 240: 0, 246: 1, 5000: 1} {
		h := newDownloads(t)
		h.store("s1", many(files, "")) // and ten directories
		id, _ := h.fresh()
		require.Equal(t, want, lists(h), files)
		h.list(snapshot.Snapshot{ID: "s2", Parts: h.head.Snapshots[0].Parts}) // as a restored one
		down, err := h.update(id, "s1")
		require.NoError(t, err)
		require.Equal(t, files*(1-want), down.MovedFiles, files)
		require.Equal(t, 2*want, lists(h), files)
	}
	h := newDownloads(t)
	h.apart = true
	s := h.store("s1", many(300, ""))
	for key := range h.bucket.Objects() {
		if strings.Contains(key, "/packs/") && key != packOf(s.Parts[0].Index) {
			require.NoError(t, h.bucket.Delete(t.Context(), key))
			break
		}
	}
	_, err := h.download(h.container())
	require.ErrorIs(t, err, snapshot.ErrCorrupt)
	require.Zero(t, lists(h))
}

// A large file of many records is compared whole.
func TestDownloadDifferenceOfLargeFiles(t *testing.T) {
	t.Parallel()
	h := newDownloads(t)
	h.cut = 64
	body := incompressible(64 * 2048 * 5 / 2)
	filler := fileOf("filler", strings.Repeat("x", 1<<20))
	first := []stateFile{fileOf("a", body), fileOf("b", "b"), fileOf("c", body[:64*2048*2]), fileOf("d", body), filler}
	h.store("s1", first)
	id, _ := h.fresh()
	changed := body[:len(body)-1] + "x"
	if changed == body {
		changed = body[:len(body)-1] + "y"
	}
	second := []stateFile{fileOf("a", body), fileOf("b", "b"), fileOf("c", body[:64*2048*2]), fileOf("d", changed), filler}
	h.store("s2", second)
	down, err := h.update(id, "s1")
	require.NoError(t, err)
	require.Equal(t, expected(second), h.listed(id, "/data"))
	require.Equal(t, 1, down.MovedFiles)
}

// resume makes the next list of snapshots one after that of an upload.
func (h *downloads) resume(list []snapshot.Snapshot) {
	h.head.Snapshots = list
	h.head.Generation += 100
}

// Mappings that overlap: each decides about its own paths, and the later one
// about those of both.
func TestDownloadDifferenceOfOverlappingMappings(t *testing.T) {
	t.Parallel()
	mapping := func(dir, pattern, sink string, d workload.Direction) workload.Mapping {
		return workload.Mapping{Path: dir, Volume: "/data", Pattern: pattern, SinkPath: sink, Direction: d}
	}
	h := newDownloads(t, mapping("/data", "**", "a", workload.Bidirectional), mapping("/data/sub", "*.json", "b", workload.Bidirectional),
		mapping("/data", "*.raw", "c", workload.Download))
	h.raw("c/x.raw")
	first := []stateFile{dirOf("sub"), fileOf("sub/a", "1"), fileOf("sub/b.json", "1"), fileOf("sub/c.json", "1"), fileOf("x.raw", "old")}
	h.store("s1", first, []stateFile{fileOf("b.json", "2"), fileOf("d.json", "2")})
	h.store("s2", []stateFile{dirOf("sub"), fileOf("sub/a", "1"), fileOf("sub/b.json", "3")}, []stateFile{fileOf("b.json", "4")})
	want, _ := h.fresh()
	h.head.Snapshots = h.head.Snapshots[1:]
	h.list(h.head.Snapshots[0])
	id, _ := h.fresh()
	require.Len(t, h.listed(id, "/data"), 6)
	h.head.Snapshots = nil
	h.store("s3", []stateFile{dirOf("sub"), fileOf("sub/a", "1"), fileOf("sub/b.json", "3")}, []stateFile{fileOf("b.json", "4")})
	_, err := h.update(id, "s1")
	require.NoError(t, err)
	require.Equal(t, h.listed(want, "/data"), h.listed(id, "/data"))
}

// What the current snapshot has no part for is none of its state.
func TestDownloadDifferenceWithoutPart(t *testing.T) {
	t.Parallel()
	h := newDownloads(t)
	h.store("s1", []stateFile{fileOf("a", "1")})
	id, _ := h.fresh()
	h.list(snapshot.Snapshot{ID: "s0"})
	_, err := h.update(id, "s1")
	require.NoError(t, err)
	require.Empty(t, h.listed(id, "/data"))
}

// A directory that does not exist in the container is written, and so is one that
// a process has replaced by a link to its own files. A download that cannot list
// the container fails.
func TestDownloadDifferenceWithoutDirectory(t *testing.T) {
	t.Parallel()
	h := newDownloads(t, workload.Mapping{Path: "/data/a/b", Volume: "/data", Pattern: "**", Direction: workload.Bidirectional})
	files := append(many(300, ""), fileOf("x", "1"))
	h.store("s1", files)
	id := h.container()
	_, err := h.update(id, "s0")
	require.NoError(t, err)
	require.Equal(t, expected(files), h.listed(id, "/data/a/b"))
	h.change(id, "/data", []stateFile{linkOf("a", "/more")})
	h.change(id, "/more", append([]stateFile{dirOf("b")}, fileOf("b/y", "2")))
	files = with(files, fileOf("x", "2"))
	h.store("s2", files)
	h.rt.ForgetMoved()
	_, err = h.update(id, "s1")
	require.NoError(t, err)
	require.Zero(t, h.rt.Moved().Listed, "not what the link leads to")
	require.Equal(t, expected(files), h.listed(id, "/data/a/b"))
	require.Equal(t, expected([]stateFile{dirOf("b"), fileOf("b/y", "2")}), h.listed(id, "/more"))
	h.rt.Before("scan_next", func(context.Context, fake.Call) error { return errTestScan })
	_, err = h.update(id, "s1")
	require.ErrorIs(t, err, errTestScan)
	require.NotErrorIs(t, err, snapshot.ErrCorrupt)
}

// Only a snapshot with a part for each mapping, in volumes, can be put in place of
// another one.
func TestCanUpdate(t *testing.T) {
	t.Parallel()
	in := func(volume string, d workload.Direction) workload.Mapping {
		return workload.Mapping{Path: "/data", Volume: volume, Pattern: "**", SinkPath: "a" + volume, Direction: d}
	}
	s := snapshot.Snapshot{Parts: []snapshot.Part{{SinkPath: "a/data"}, {SinkPath: "a"}}}
	for _, test := range []struct {
		mappings []workload.Mapping
		want     bool
	}{
		{[]workload.Mapping{in("/data", workload.Bidirectional), in("/more", workload.Upload), in("/more", workload.Download)}, true},
		{[]workload.Mapping{in("/data", workload.Bidirectional), in("/more", workload.Bidirectional)}, false},
		{[]workload.Mapping{in("", workload.Bidirectional)}, false},
		{[]workload.Mapping{in("", workload.Download)}, false},
	} {
		require.Equal(t, test.want, s.CanUpdate(&workload.Sync{Mappings: test.mappings}), test.mappings)
	}
	h := newDownloads(t, in("", workload.Download))
	_, err := h.update(h.container(), "s1")
	require.ErrorContains(t, err, "in its volumes only")
}

var errTestScan = errors.New("it cannot be listed")

// A file whose content is in the container already, and whose time or owner is not,
// is written.
func TestDownloadDifferenceOfAttributes(t *testing.T) {
	t.Parallel()
	h := newDownloads(t)
	files := many(300, "")
	h.store("s1", files)
	id, _ := h.fresh()
	touched, given, link := fileOf("d1/0001", "1"), fileOf("d2/0002", "2"), linkOf("d3/l", "x")
	touched.ModTime = touched.ModTime.Add(1)
	given.Owner, link.Owner = 7, 7
	now := with(files, touched, given, link)
	h.store("s2", now)
	h.change(id, "/data", []stateFile{linkOf("d3/l", "x")})
	down, err := h.update(id, "s1")
	require.NoError(t, err)
	require.Equal(t, expected(now), h.listed(id, "/data"))
	require.Equal(t, 3, down.MovedFiles)
}

// touchedTrees lists a file with another time than it has, and with the same stamp.
type touchedTrees struct {
	*fake.Runtime
	path string
}

func (r touchedTrees) ScanTree(ctx context.Context, id, dir string, o tree.ScanOptions) (tree.Scan, error) {
	s, err := r.Runtime.ScanTree(ctx, id, dir, o)
	return touchedScan{s, r.path}, err
}

type touchedScan struct {
	tree.Scan
	path string
}

func (s touchedScan) Next() ([]tree.Entry, error) {
	entries, err := s.Scan.Next()
	for i := range entries {
		if entries[i].Path == s.path {
			entries[i].ModTime = entries[i].ModTime.Add(time.Hour)
		}
	}
	return entries, err
}

// A file that was changed in the same step of the clock in which it was written has the
// stamp that it had, and another time. It is written again.
func TestDownloadDifferenceInOneStep(t *testing.T) {
	t.Parallel()
	h := newDownloads(t)
	h.store("s1", many(300, ""))
	id, _ := h.fresh()
	to := h.to(id)
	to.Holds = "s1"
	down, err := h.sink.Download(t.Context(), touchedTrees{h.rt, "d1/0001"}, to)
	require.NoError(t, err)
	require.Equal(t, 1, down.MovedFiles)
}
