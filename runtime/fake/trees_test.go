package fake_test

import (
	"context"
	"errors"
	"io"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/runtime/tree"
)

// fillTree writes files of the given content.
func fillTree(t *testing.T, rt *fake.Runtime, id string, files map[string]string) {
	t.Helper()
	w, err := rt.FillTree(t.Context(), id, "/data", 0, nil)
	require.NoError(t, err)
	for _, name := range []string{"a", "b", "c/d"} {
		if text, ok := files[name]; ok {
			require.NoError(t, w.Create(tree.Entry{Path: name, Kind: tree.File, Size: int64(len(text))}))
			require.NoError(t, w.Write([]byte(text)))
		}
	}
	require.NoError(t, w.Close())
}

// scanSome lists /data and reads the files that are selected.
func scanSome(t *testing.T, rt *fake.Runtime, id string, selected ...string) error {
	t.Helper()
	scan, err := rt.ScanTree(t.Context(), id, "/data", tree.ScanOptions{})
	require.NoError(t, err)
	defer scan.Close()
	entries, err := scan.Next()
	if err != nil {
		return err
	}
	var indexes []int
	for i, e := range entries {
		for _, name := range selected {
			if e.Path == name {
				indexes = append(indexes, i)
			}
		}
	}
	return scan.Read(indexes, func(int, tree.Entry, tree.Content) error { return nil })
}

// A test can find out how much was read and written.
func TestMovedCountsTrees(t *testing.T) {
	rt := fake.New()
	id := startContainer(t, rt)
	fillTree(t, rt, id, map[string]string{"a": "12345", "b": "123", "c/d": ""})
	require.Equal(t, fake.Moved{Created: 3, FilesWritten: 3, BytesWritten: 8}, rt.Moved())
	rt.ForgetMoved()
	require.NoError(t, scanSome(t, rt, id, "b"))
	require.Equal(t, fake.Moved{Listed: 4, FilesRead: 1, BytesRead: 3}, rt.Moved())
	rt.ForgetMoved()
	w, err := rt.FillTree(t.Context(), id, "/data", 0, nil)
	require.NoError(t, err)
	require.NoError(t, w.Remove("a"))
	require.NoError(t, w.Remove("none"))
	require.NoError(t, w.Close())
	require.Equal(t, fake.Moved{Removed: 1}, rt.Moved())
}

// A trap can be set for each part of a tree, and finds its paths. Parts are not
// recorded.
func TestTreeTraps(t *testing.T) {
	rt := fake.New()
	id := startContainer(t, rt)
	fillTree(t, rt, id, map[string]string{"a": "1", "b": "2"})
	broken := errors.New("broken")

	var read []string
	remove := rt.Before("scan_read", func(_ context.Context, call fake.Call) error {
		read = append(read, call.Args...)
		return nil
	})
	require.NoError(t, scanSome(t, rt, id, "b"))
	require.Equal(t, []string{"b"}, read)
	remove()
	for _, part := range []string{"scan_next", "scan_read"} {
		restore := rt.Break(part, broken)
		require.ErrorIs(t, scanSome(t, rt, id, "a", "b"), broken, part)
		restore()
	}
	for _, part := range []string{"fill_create " + id + " new", "fill_remove", "fill_close"} {
		restore := rt.Break(part, broken)
		w, err := rt.FillTree(t.Context(), id, "/data", 0, nil)
		require.NoError(t, err)
		err = errors.Join(w.Create(tree.Entry{Path: "new", Kind: tree.Dir}), w.Remove("none"), w.Close())
		require.ErrorIs(t, err, broken, part)
		restore()
	}
	rt.SetDown(true)
	_, err := rt.ScanTree(t.Context(), id, "/data", tree.ScanOptions{})
	require.ErrorIs(t, err, runtime.ErrUnavailable)
	rt.SetDown(false)
	rt.ForgetCalls()
	require.NoError(t, scanSome(t, rt, id))
	require.Equal(t, []string{"scan_tree " + id + " /data"}, rt.Calls())
}

// A container that exits, even if it is started again, ends what reads and writes.
func TestTreesEndWithTheContainer(t *testing.T) {
	for _, restart := range []bool{false, true} {
		rt := fake.New()
		id := startContainer(t, rt)
		scan, err := rt.ScanTree(t.Context(), id, "/data", tree.ScanOptions{})
		require.NoError(t, err)
		w, err := rt.FillTree(t.Context(), id, "/data", 0, nil)
		require.NoError(t, err)
		rt.Kill(id)
		if restart {
			require.NoError(t, rt.Restart(t.Context(), id, 1))
		}
		_, err = scan.Next()
		require.ErrorIs(t, err, runtime.ErrContainerExited)
		require.ErrorIs(t, w.Close(), runtime.ErrContainerExited)
	}
}

// A hole takes no memory, however large it is.
func TestTreesKeepHoles(t *testing.T) {
	const size = 20 << 30
	rt := fake.New()
	id := startContainer(t, rt)
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	w, err := rt.FillTree(t.Context(), id, "/data", 0, nil)
	require.NoError(t, err)
	require.NoError(t, w.Create(tree.Entry{Path: "file", Kind: tree.File, Size: size + 2}))
	require.NoError(t, w.Write([]byte("a")))
	require.NoError(t, w.Hole(size))
	require.NoError(t, w.Write([]byte("b")))
	require.NoError(t, w.Close())
	scan, err := rt.ScanTree(t.Context(), id, "/data", tree.ScanOptions{})
	require.NoError(t, err)
	defer scan.Close()
	entries, err := scan.Next()
	require.NoError(t, err)
	require.EqualValues(t, size+2, entries[0].Size)
	require.NoError(t, scan.Read([]int{0}, func(_ int, _ tree.Entry, content tree.Content) error {
		for _, want := range []string{"a", "", "b"} {
			data, hole, err := content.Next()
			require.NoError(t, err)
			require.Equal(t, want, string(data))
			require.Equal(t, want == "", hole == size)
		}
		_, _, err := content.Next()
		require.ErrorIs(t, err, io.EOF)
		return nil
	}))
	goruntime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
	info, err := rt.StatFile(t.Context(), id, fileRef("/data/file"))
	require.NoError(t, err)
	require.EqualValues(t, size+2, info.Size)
}
