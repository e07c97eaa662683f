package snapshot_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
	"github.com/hostler/hostler/workload"
)

// manyFiles returns n files of 100 bytes, in directories of 100.
func manyFiles(n int) []file {
	var files []file
	for i := range n {
		if i%100 == 0 {
			files = append(files, dir(fmt.Sprintf("d%02d", i/100)))
		}
		files = append(files, reg(fmt.Sprintf("d%02d/f%05d", i/100, i), fmt.Sprintf("%0100d", i)))
	}
	return files
}

// Of many files, the one that has changed is read, and its chunk and a part of
// the index are stored. It does not matter that its size and its time are what
// they were.
func TestOneChangedFile(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	const n = 5000
	c := h.container(manyFiles(n)...)
	first := h.upload(c)
	require.Equal(t, []int{n, n}, []int{first.MovedFiles, h.rt.Moved().FilesRead})

	h.rt.ForgetMoved()
	puts := len(h.bucket.Calls("put"))
	same := h.upload(c)
	require.True(t, same.Unchanged)
	require.Zero(t, same.Sent)
	require.Zero(t, h.rt.Moved().FilesRead)
	require.Len(t, h.bucket.Calls("put"), puts)

	h.put(c, "/data", reg("d20/f02000", strings.Repeat("x", 100)))
	h.rt.ForgetMoved()
	second := h.upload(c)
	require.Equal(t, 1, h.rt.Moved().FilesRead)
	require.Equal(t, []any{1, int64(100)}, []any{second.MovedFiles, second.MovedBytes})
	require.Equal(t, []any{first.Files, first.Bytes}, []any{second.Files, second.Bytes})
	one, all := second.Snapshot.NewBytes(), first.Snapshot.NewBytes()
	require.Less(t, one, all/2, "one segment of about five")
	require.Greater(t, second.Snapshot.StoredBytes(), all/2)
	require.Equal(t, one, second.Sent)
	require.Equal(t, strings.Repeat("x", 100), h.kept()["d20/f02000"])

	h.rt.ForgetMoved()
	require.True(t, h.upload(c).Unchanged)
	require.Zero(t, h.rt.Moved().FilesRead, "the list of the new snapshot")
}

// A file is read unless all of its size, its time and its stamp are known.
func TestWhatIsRead(t *testing.T) {
	t.Parallel()
	const n = 300
	entries := func(change func(i int, e *tree.Entry)) []tree.Entry {
		var all []tree.Entry
		for i := range n {
			e := entry(fmt.Sprintf("%03d", i), tree.File, 8)
			e.Stamp = tree.Stamp{Inode: uint64(i) + 1, ChangeTime: int64(i) * 1e9} //nolint:gosec // small
			change(i, &e)
			all = append(all, e)
		}
		return all
	}
	for what, c := range map[string]struct {
		first, second func(i int, e *tree.Entry)
		container     string
		read          int
		changed       bool
	}{
		"nothing":           {},
		"a stamp":           {second: func(_ int, e *tree.Entry) { e.Stamp.ChangeTime++ }, read: 1},
		"an inode":          {second: func(_ int, e *tree.Entry) { e.Stamp.Inode = 1e9 }, read: 1},
		"a time":            {second: func(_ int, e *tree.Entry) { e.ModTime = e.ModTime.Add(1) }, read: 1, changed: true},
		"a size":            {second: func(_ int, e *tree.Entry) { e.Size++ }, read: 1, changed: true},
		"no stamp":          {second: func(_ int, e *tree.Entry) { e.Stamp = tree.Stamp{} }, read: 1},
		"never a stamp":     {first: func(_ int, e *tree.Entry) { e.Stamp = tree.Stamp{} }, second: func(_ int, e *tree.Entry) { e.Stamp = tree.Stamp{} }, read: 1},
		"a mode":            {second: func(_ int, e *tree.Entry) { e.Mode = 0o600 }, changed: true},
		"an owner":          {second: func(_ int, e *tree.Entry) { e.Owner = 7 }, changed: true},
		"another container": {container: "other", read: n},
	} {
		h := newHarness(t, "")
		only := func(change func(int, *tree.Entry)) func(int, *tree.Entry) {
			return func(i int, e *tree.Entry) {
				if change != nil && i == n/2 {
					change(i, e)
				}
			}
		}
		var last *testScan
		upload := func(container string, list []tree.Entry) snapshot.Transfer {
			files := scanFunc(func(context.Context, string) tree.Scan { last = scanOf(list...); return last })
			up, err := h.sink.Upload(t.Context(), files, h.origin(container))
			require.NoError(t, err, what)
			return up
		}
		upload("c", entries(only(c.first)))
		if c.container == "" {
			c.container = "c"
		}
		up := upload(c.container, entries(only(c.second)))
		require.Equal(t, []any{c.read, c.read, !c.changed}, []any{last.reads, up.MovedFiles, up.Unchanged}, what)
		if c.read < n {
			continue
		}
		upload(c.container, entries(only(nil)))
		require.Zero(t, last.reads, "the list was replaced")
	}
}

// Many small uploads leave few packs, and lose nothing.
func TestPacksAreReplaced(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	c := h.container()
	want, most := map[string]string{}, 0
	for i := range 50 {
		name := fmt.Sprint("f", i%40)
		want[name] = fmt.Sprint("content ", i)
		h.put(c, "/data", reg(name, want[name]))
		up := h.upload(c)
		most = max(most, h.sink.PacksOf(t, up.Snapshot))
		require.True(t, h.upload(c).Unchanged)
	}
	require.Equal(t, want, h.kept())
	require.Equal(t, snapshot.MinCompacted, most)
}

// A file that has gone is a change, wherever it was.
func TestRemovedFiles(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	all := []file{reg("a", "1"), dir("b"), reg("b/c", "2"), reg("d", "3")}
	for _, kept := range [][]file{all[1:], {all[0], all[3]}, all[:2], all[:3], nil} {
		h.upload(h.container(all...))
		up := h.upload(h.container(kept...))
		require.False(t, up.Unchanged)
		require.Equal(t, len(kept), up.Files)
		require.Len(t, h.kept(), len(kept))
	}
}

// A mapping that only adds keeps what is not in the container, without reading
// it.
func TestCopyReadsNothing(t *testing.T) {
	t.Parallel()
	bucket := snapshottest.NewMemory()
	sink, c := sinkOf(bucket, workload.ModeCopy), &contents{}
	for i := range 1000 {
		c.set(fmt.Sprintf("%04d", i), pieces(incompressible(1000))...)
	}
	c.upload(t, sink)
	c = &contents{}
	require.True(t, c.upload(t, sink).Unchanged)
	c.set("0500", pieces("other")...)
	ranges := len(bucket.Calls("range"))
	up := c.upload(t, sink)
	require.Equal(t, 1000, up.Files)
	require.Equal(t, int64(999*1000+5), up.Bytes)
	require.Less(t, len(bucket.Calls("range"))-ranges, 10)
}

// An upload reads each segment of a large index once, although it needs it twice.
func TestIndexIsReadOnce(t *testing.T) {
	t.Parallel()
	bucket := snapshottest.NewMemory()
	sink, c := sinkOf(bucket, workload.ModeSync), &contents{}
	for i := range 20_000 {
		c.names = append(c.names, fmt.Sprintf("%05d", i))
	}
	c.data = map[string][]extent{}
	for i, name := range c.names {
		c.data[name] = []extent{{data: fmt.Sprintf("%0100d", i)}}
	}
	c.upload(t, sink)
	for range 3 {
		before := len(bucket.Calls("range"))
		require.True(t, c.upload(t, sink).Unchanged)
		ranges := map[snapshottest.Call]int{}
		for _, call := range bucket.Calls("range")[before:] {
			ranges[call]++
		}
		require.Len(t, ranges, 1, "the index is in one pack")
		for _, n := range ranges {
			require.InDelta(t, 21, n, 8, "the root and about 20 segments")
		}
	}
}

// An upload whose last index is damaged stores all again: the container has it.
// One that needs the index, because the mapping only adds, fails.
func TestDamagedIndexIsReplaced(t *testing.T) {
	t.Parallel()
	for _, mode := range []workload.Mode{workload.ModeSync, workload.ModeCopy} {
		bucket := snapshottest.NewMemory()
		sink, c := sinkOf(bucket, mode), &contents{}
		for i := range 3000 {
			c.set(fmt.Sprintf("%04d", i), pieces(fmt.Sprint(i))...)
		}
		index := c.upload(t, sink).Snapshot.Parts[0].Index
		key := "t/alice/.hostler/w/packs/" + index.Pack
		whole := bucket.Objects()[key]
		for _, at := range []int{int(index.Offset) + 10, int(index.Offset) - 10, int(index.Offset) / 2} {
			bad := slices.Clone(whole)
			bad[at]++
			bucket.Set(key, bad, start)
			files := scanFunc(func(context.Context, string) tree.Scan { return scanOf(entry("f", tree.File, 10)) })
			up, err := sink.Upload(t.Context(), files, origin("w", "alice"))
			if mode == workload.ModeCopy {
				require.ErrorIs(t, err, snapshot.ErrCorrupt)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, 1, up.Files)
			require.NotEqual(t, index.Pack, up.Snapshot.Parts[0].Index.Pack)
			bucket.Set(key, whole, start)
			c.upload(t, sink)
		}
	}
}

// A seen list is only a hint: an upload does not fail because it cannot be
// stored or read, and reads the files.
func TestSeenListFails(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"put", "get", "delete"} {
		h := newHarness(t, "")
		c := h.container(manyFiles(300)...)
		h.bucket.Before(func(call snapshottest.Call) error {
			if call.Op == op && strings.Contains(call.Key, "/seen/") {
				return snapshottest.ErrInjected
			}
			return nil
		})
		h.upload(c)
		h.rt.ForgetMoved()
		require.True(t, h.upload(c).Unchanged)
		h.put(c, "/data", reg("d01/new", "x"))
		require.False(t, h.upload(c).Unchanged)
		require.Equal(t, "x", h.kept()["d01/new"])
	}
}

// Whatever changes, a new container gets what the last one had.
func TestRandomChanges(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		if seed > 0 && !testenv.Selects(8, fmt.Sprint("random changes ", seed)) {
			continue
		}
		r := rand.New(rand.NewPCG(seed, 15))
		h := newHarness(t, "")
		state := map[string]file{}
		for step := range 12 {
			for range r.IntN(40) {
				d, name := fmt.Sprint("d", r.IntN(4)), fmt.Sprint("n", r.IntN(30))
				f := []file{
					reg(d+"/"+name, incompressible(r.IntN(2000))), reg(d+"/"+name, strings.Repeat("z", r.IntN(400_000))),
					dir(d + "/" + name), link(d+"/"+name, fmt.Sprint(r.IntN(9))), reg(d+"/"+name, strings.Repeat("\x00", r.IntN(5000))),
				}[r.IntN(5)]
				f.mode |= int64(r.IntN(8))
				state[f.name] = f
				state[d] = dir(d)
				if r.IntN(3) == 0 {
					delete(state, f.name)
				}
			}
			var files []file
			for _, f := range state {
				files = append(files, f)
			}
			slices.SortFunc(files, func(a, b file) int { return tree.Compare(a.name, b.name) })
			c := h.container(files...)
			up := h.upload(c)
			back, down := h.download()
			require.Equal(t, h.has(c, "/data"), h.has(back, "/data"), "seed %d, step %d", seed, step)
			require.Equal(t, []any{len(state), up.Bytes}, []any{up.Files, down.Bytes})
			require.True(t, h.upload(back).Unchanged)
		}
	}
}

// Listing is progress: a container whose files are known may list them at the
// pace of its file system.
func TestListingIsProgress(t *testing.T) {
	t.Parallel()
	for pause, slow := range map[time.Duration]bool{time.Second / 4: false, 2 * time.Second: true} {
		synctest.Test(t, func(t *testing.T) {
			files := scanFunc(func(ctx context.Context, _ string) tree.Scan {
				s := scanOf()
				s.n = 1000 * testBatch
				s.entry = func(i int) tree.Entry {
					if i%testBatch == 0 {
						select {
						case <-time.After(pause):
						case <-ctx.Done():
						}
					}
					return entry(fmt.Sprintf("%06d", i), tree.Dir, 0)
				}
				return s
			})
			_, err := sinkFor("**").Upload(t.Context(), files, origin("w", "alice"))
			if slow {
				require.ErrorContains(t, err, "less than 64 KiB a second")
				return
			}
			require.NoError(t, err)
		})
	}
}
