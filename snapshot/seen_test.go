package snapshot_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot"
)

// lavishTrees report more stamps than there are files.
type lavishTrees struct{ *fake.Runtime }

func (r lavishTrees) FillTree(ctx context.Context, id, dir string, fence int64, stamped func([]tree.Stamp)) (tree.Writer, error) {
	if stamped != nil {
		stamped(make([]tree.Stamp, 10))
	}
	return r.Runtime.FillTree(ctx, id, dir, fence, func(s []tree.Stamp) {
		if stamped != nil {
			stamped(append(s, make([]tree.Stamp, 1000)...))
		}
	})
}

// A container that reports stamps of files which do not exist harms nothing.
func TestMoreStampsThanFiles(t *testing.T) {
	t.Parallel()
	h := newDownloads(t)
	files := many(300, "")
	h.store("s1", files)
	id := h.container()
	_, err := h.sink.Download(t.Context(), lavishTrees{h.rt}, h.to(id))
	require.NoError(t, err)
	require.Equal(t, expected(files), h.listed(id, "/data"))
}

// The list of a container that was emptied and gets the same snapshot again is
// replaced.
func TestSeenListOfAnEmptiedContainer(t *testing.T) {
	t.Parallel()
	h := newDownloads(t)
	h.store("s1", many(300, ""))
	id, _ := h.fresh()
	h.change(id, "/data", nil, "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9")
	_, err := h.download(id)
	require.NoError(t, err)
	up, err := h.sink.Upload(t.Context(), h.rt, snapshot.Origin{Owner: h.to(id).Owner, Container: id, Fence: 1})
	require.NoError(t, err)
	require.Equal(t, []any{true, 0}, []any{up.Unchanged, up.MovedFiles})
}

// A list that replaces one of which some files are still as they were has each of them
// at its place.
func TestSeenListIsReplacedInOrder(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	upload := func(stamp int64) int {
		var list []tree.Entry
		for i := range int64(300) {
			e := entry(fmt.Sprintf("%03d", i), tree.File, 8)
			e.Stamp = tree.Stamp{Inode: uint64(i) + 1, ChangeTime: i*1e9 + 1} //nolint:gosec // small
			if i%4 == 0 {
				e.Stamp.ChangeTime = stamp
			}
			list = append(list, e)
		}
		scan := scanOf(list...)
		_, err := h.sink.Upload(t.Context(), scanFunc(func(context.Context, string) tree.Scan { return scan }), h.origin("c"))
		require.NoError(t, err)
		return scan.reads
	}
	require.Equal(t, []int{300, 75, 0}, []int{upload(5), upload(6), upload(6)})
}
