package snapshot_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
)

// The memory of an import is what its limit counts, also while the list of names
// grows.
func TestImportMemoryIsCounted(t *testing.T) {
	testenv.FullOnly(t, "memory", "measures the memory of its process")
	const files = 80_000
	archive := func(n int) []byte {
		var b bytes.Buffer
		to := tar.NewWriter(&b)
		for i := range n {
			require.NoError(t, to.WriteHeader(&tar.Header{Name: fmt.Sprintf("data/%x", i), Mode: 0o644, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}))
		}
		require.NoError(t, to.Close())
		return b.Bytes()
	}
	peak := func(n int) int64 {
		from := archive(n)
		h := newHarness(t, "{sink: {type: file}, max_files: 1000000}")
		defer debug.SetGCPercent(debug.SetGCPercent(5))
		return int64(watchHeap(t, func() {
			_, err := h.sink.Import(t.Context(), h.origin(""), bytes.NewReader(from), always)
			require.NoError(t, err)
		}))
	}
	few := peak(1000)
	many := peak(files)
	require.Less(t, (many-few)/files, int64(snapshot.RecordMemory)*5/4, "garbage is collected late")
}

// Owners that no file can have are refused, with the name of the entry.
func TestImportOfInvalidOwners(t *testing.T) {
	t.Parallel()
	for _, id := range []int{-1, -5, 1<<32 - 1, 1 << 40} {
		for _, user := range []bool{false, true} {
			h := &tar.Header{Name: "data/f", Mode: 0o644, Typeflag: tar.TypeReg, Format: tar.FormatGNU}
			if h.Gid = id; user {
				h.Uid, h.Gid = id, 0
			}
			var b bytes.Buffer
			to := tar.NewWriter(&b)
			require.NoError(t, to.WriteHeader(h))
			require.NoError(t, to.Close())
			in := newHarness(t, "")
			_, err := in.sink.Import(t.Context(), in.origin(""), &b, always)
			require.ErrorIs(t, err, runtime.ErrBadArchive, id)
			require.ErrorContains(t, err, `"f" has an invalid owner`, id)
		}
	}
}
