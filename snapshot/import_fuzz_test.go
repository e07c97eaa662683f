package snapshot_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
)

// FuzzImport imports any bytes as a tar. What is accepted is whole, is exported, and
// is imported and exported again as the same bytes.
func FuzzImport(f *testing.F) {
	f.Add(pack(f, reg("data/a", "text"), dir("data/d"), link("data/l", "a"), file{"data/h", tar.TypeLink, 0o644, "data/a"}))
	f.Add(pack(f, reg("./data/a", "1"), reg("/data/a", "2"), file{"data/p", tar.TypeFifo, 0o644, ""}, reg("data/odd\n\xff", "")))
	f.Add(pack(f, reg("etc/x", "1")))
	f.Add(pack(f, link("data/l", "/etc"), reg("data/l/x", "1")))
	f.Fuzz(func(t *testing.T, archive []byte) {
		h := newHarness(t, "{sink: {type: file}, max_size: 1m, max_files: 100}")
		_, err := h.sink.Import(t.Context(), h.origin(""), bytes.NewReader(archive), always)
		if err != nil {
			require.True(t, errors.Is(err, runtime.ErrBadArchive) || errors.Is(err, snapshot.ErrTooLarge), "%v", err)
			return
		}
		require.Zero(t, h.verified("").Damaged)
		first := h.exported("")
		h.importTar(first)
		require.Equal(t, first, h.exported(""))
	})
}
