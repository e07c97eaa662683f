package snapshot_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/workload"
)

// maxHeap bounds the memory of an upload, whatever the size of the state.
const maxHeap = 100 << 20

// BenchmarkMillionFiles uploads 1,000,000 files of 100 bytes, which a function
// makes: what is measured is the server's part alone.
func BenchmarkMillionFiles(b *testing.B) {
	const files, perDir = 1_000_000, 1000
	sinks := snapshot.NewSinks(snapshot.PathPolicy{State: b.TempDir()}, nil)
	defer sinks.Close()
	sync := synced(b, "{sink: {type: file}, max_files: 5000000}")
	sync.Mappings = []workload.Mapping{{Path: "/data", Pattern: "**", Direction: workload.Bidirectional, Mode: workload.ModeSync}}
	sink, err := sinks.Open(b.Context(), sync)
	require.NoError(b, err)
	changed := 0
	container := scanFunc(func(context.Context, string) tree.Scan {
		s := scanOf()
		s.n = files + files/perDir
		s.entry = func(i int) tree.Entry {
			d, f := i/(perDir+1), i%(perDir+1)
			if f == 0 {
				return entry(fmt.Sprintf("dir%04d", d), tree.Dir, 0)
			}
			e := entry(fmt.Sprintf("dir%04d/file%04d.json", d, f), tree.File, 100)
			e.Stamp = tree.Stamp{Inode: uint64(i), ChangeTime: 1e18 + int64(i)*1e5} //nolint:gosec // not negative
			if i == files/2+1 {
				e.Stamp.ChangeTime += int64(changed)
			}
			return e
		}
		s.content = func(e tree.Entry) tree.Content {
			return &extents{[]extent{{data: fmt.Sprintf("%-100s", fmt.Sprint(e.Path, e.Stamp.ChangeTime))}}}
		}
		return s
	})
	upload := func(b *testing.B) (t snapshot.Transfer) {
		heap := watchHeap(b, func() {
			var err error
			t, err = sink.Upload(b.Context(), container, origin("w", "alice"))
			require.NoError(b, err)
		})
		require.Less(b, heap, uint64(maxHeap))
		b.ReportMetric(float64(heap)/(1<<20), "MiB-heap")
		return t
	}
	b.Run("first", func(b *testing.B) {
		for range b.N {
			require.Equal(b, files, upload(b).MovedFiles)
		}
	})
	b.Run("unchanged", func(b *testing.B) {
		for range b.N {
			t := upload(b)
			require.True(b, t.Unchanged)
			require.Zero(b, t.MovedFiles)
		}
	})
	b.Run("one-changed", func(b *testing.B) {
		for range b.N {
			changed++
			t := upload(b)
			require.Equal(b, 1, t.MovedFiles)
			b.ReportMetric(float64(t.Snapshot.NewBytes())/(1<<10), "KiB-new")
		}
	})
}
