package snapshot_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot"
)

// nowhere is a container that discards what is written to it.
type nowhere struct{ stalledCalls }

func (n *nowhere) FillTree(context.Context, string, string, int64, func([]tree.Stamp)) (tree.Writer, error) {
	return n, nil
}

// BenchmarkDownload downloads states from memory to nowhere: what a download costs
// the server, without its bucket and the container.
func BenchmarkDownload(b *testing.B) {
	for what, files := range map[string][]stateFile{
		"tiny":  many(5, ""),
		"files": many(20_000, ""),
		"large": {fileOf("a", incompressible(128<<20)), fileOf("b", incompressible(64<<20)+"b")},
	} {
		b.Run(what, func(b *testing.B) {
			h := newDownloads(b)
			s := h.store("s1", files)
			b.SetBytes(s.Bytes())
			b.ReportAllocs()
			for b.Loop() {
				_, err := h.sink.Download(b.Context(), &nowhere{}, h.to("c"))
				require.NoError(b, err)
			}
			b.ReportMetric(float64(h.requests("range"))/float64(b.N), "ranges/op")
		})
	}
	b.Run("difference", func(b *testing.B) {
		h := newDownloads(b)
		files := many(20_000, "")
		h.store("s0", files)
		id, _ := h.fresh()
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			h.list(snapshot.Snapshot{ID: fmt.Sprint("s", i+1), Parts: h.head.Snapshots[0].Parts})
			b.StartTimer()
			down, err := h.update(id, fmt.Sprint("s", i))
			require.NoError(b, err)
			require.Zero(b, down.MovedFiles)
		}
	})
}
