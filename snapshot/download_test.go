package snapshot_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/index"
	"github.com/hostler/hostler/snapshot/snapshottest"
	"github.com/hostler/hostler/workload"
)

// exampleState has one entry of each sort.
func exampleState() []stateFile {
	secret, owned, sparse := fileOf("sub/secret", "s"), fileOf("sub/owned", "o"), fileOf("sparse", "end")
	secret.Mode = 0o600
	owned.Owner, owned.Group = 4711, 4712
	sparse.hole = 3 << 30
	return []stateFile{
		fileOf("a", "text"), dirOf("empty"), dirOf("sub"), secret, owned, fileOf("sub/run", "#!"), sparse,
		linkOf("link", "sub/secret"), linkOf("out", "/etc/passwd"), fileOf("odd\nname \xff", "odd"), fileOf(strings.Repeat("n", 255), "long"),
		fileOf("zero", ""), fileOf("sub-x", "sorts after what is in sub"), fileOf("large", incompressible(3<<20)),
	}
}

// A download puts everything that the snapshot has into the container: content,
// holes, modes, owners, times and links.
func TestDownloadState(t *testing.T) {
	t.Parallel()
	h := newDownloads(t)
	files := exampleState()
	h.store("s1", files)
	id, down := h.fresh()
	require.Equal(t, expected(files), h.listed(id, "/data"))
	require.Equal(t, "s1", down.Snapshot.ID)
	require.Equal(t, []any{len(files), down.Snapshot.Parts[0].Bytes}, []any{down.Files, down.Bytes})
	require.Equal(t, []any{down.Files, down.Bytes}, []any{down.MovedFiles, down.MovedBytes})
	require.Positive(t, down.Sent)
}

// A tenant without a snapshot gets no files, and the result has no snapshot.
func TestDownloadOfNothing(t *testing.T) {
	t.Parallel()
	h := newDownloads(t)
	id, down := h.fresh()
	require.Equal(t, snapshot.Transfer{Duration: down.Duration}, down)
	require.Empty(t, h.listed(id, "/data"))
	require.NotContains(t, strings.Join(h.rt.Calls(), "\n"), "fill_tree")
}

// A small state needs one request for its content and its index.
func TestDownloadRequests(t *testing.T) {
	t.Parallel()
	h := newDownloads(t)
	var files []stateFile
	for i := range 200 {
		files = append(files, fileOf(fmt.Sprint(i), incompressible(i)))
	}
	h.store("s1", files)
	id, _ := h.fresh()
	require.Equal(t, expected(files), h.listed(id, "/data"))
	require.Equal(t, []int{1, 1, 1}, []int{h.requests("list"), h.requests("get"), h.requests("range")})
}

// A large state is read by a few ranges, whose order is that of its files.
func TestDownloadLargeState(t *testing.T) {
	t.Parallel()
	h := newDownloads(t)
	h.cut = 100_000
	noise := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // any data
	var files []stateFile
	for i := range 6000 {
		body := make([]byte, noise.IntN(20_000))
		for j := range body {
			body[j] = byte(noise.Uint32())
		}
		files = append(files, fileOf(fmt.Sprintf("%d/%d", i%50, i), string(body)))
	}
	for i := range 50 {
		files = append(files, dirOf(fmt.Sprint(i)))
	}
	files = append(files, fileOf("zeros", strings.Repeat("\x00", 90<<20)))
	h.store("s1", files)
	var received []int64
	to := h.to(h.container())
	to.Progress = func(n int64) { received = append(received, n) }
	down, err := h.sink.Download(t.Context(), h.rt, to)
	require.NoError(t, err)
	require.Equal(t, expected(files), h.listed(to.Container, "/data"))
	require.Less(t, h.requests("range"), 60, "of about 60 MiB")
	require.IsIncreasing(t, received)
	require.Equal(t, down.Sent, received[len(received)-1])
}

// Files in packs of their own, and the same chunk in many files, are read once
// each as far as they are near.
func TestDownloadScatteredState(t *testing.T) {
	t.Parallel()
	h := newDownloads(t)
	h.apart = true
	var files []stateFile
	for i := range 300 {
		files = append(files, fileOf(fmt.Sprintf("%04d", i), fmt.Sprint("content ", i)))
	}
	h.store("s1", files)
	id, _ := h.fresh()
	require.Equal(t, expected(files), h.listed(id, "/data"))
	require.LessOrEqual(t, h.requests("range"), 302)
}

// The directory of a mapping need not exist. One that only uploads is not
// restored.
func TestDownloadDirectories(t *testing.T) {
	t.Parallel()
	mapping := func(path, volume, sink string, d workload.Direction) workload.Mapping {
		return workload.Mapping{Path: path, Volume: volume, Pattern: "**", SinkPath: sink, Direction: d}
	}
	h := newDownloads(t, mapping("/data/sub/state", "/data", "a", workload.Bidirectional), mapping("/root/a/b", "", "b", workload.Bidirectional),
		mapping("/more", "/more", "c", workload.Upload))
	files := []stateFile{dirOf("d"), fileOf("d/f", "1")}
	h.store("s1", files, files, files)
	id, down := h.fresh()
	require.Equal(t, expected(files), h.listed(id, "/data/sub/state"))
	require.Equal(t, expected(files), h.listed(id, "/root/a/b"))
	require.Empty(t, h.listed(id, "/more"))
	require.Equal(t, 4, down.Files)

	for range 2 { // they exist now
		_, err := h.download(id)
		require.NoError(t, err)
		require.Equal(t, expected(files), h.listed(id, "/root/a/b"))
	}
}

// A download carries the fence of its flow, and is refused after that of a later
// one.
func TestDownloadFence(t *testing.T) {
	t.Parallel()
	h := newDownloads(t)
	h.store("s1", []stateFile{fileOf("a", "1")})
	to := h.to(h.container())
	to.Fence = 7
	_, err := h.sink.Download(t.Context(), h.rt, to)
	require.NoError(t, err)
	to.Fence = 6
	_, err = h.sink.Download(t.Context(), h.rt, to)
	require.ErrorIs(t, err, runtime.ErrStaleFence)
}

// raw stores objects that Hostler has not uploaded.
func (h *downloads) raw(objects ...string) {
	for _, key := range objects {
		h.bucket.Set("t/ada/"+key, []byte("of "+key), time.Unix(1700000000, 0))
	}
}

// Files that others have put into the sink reach the container, in the order of
// a tree, whatever that of their keys.
func TestDownloadRaw(t *testing.T) {
	t.Parallel()
	m := workload.Mapping{Path: "/data/x", Volume: "/data", Pattern: "**", SinkPath: "in", Direction: workload.Download}
	h := newDownloads(t, m)
	h.raw("in/a-b", "in/a/c", "in/a/b/d", "in/a.b", "in/dir/", "out")
	id, down := h.fresh()
	require.Equal(t, []int{4, 4}, []int{down.Files, down.MovedFiles})
	want := []stateFile{dirOf("a"), dirOf("a/b")}
	for name, key := range map[string]string{"a-b": "in/a-b", "a/c": "in/a/c", "a/b/d": "in/a/b/d", "a.b": "in/a.b"} {
		f := fileOf(name, "of "+key)
		f.ModTime = time.Unix(1700000000, 0)
		want = append(want, f)
	}
	require.Equal(t, expected(want), h.listed(id, "/data/x"))
}

// Keys that cannot be files are refused, and so is more than a state may have.
func TestDownloadRawRefused(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		keys []string
		want error
	}{
		"upwards":         {[]string{"in/../x"}, runtime.ErrBadArchive},
		"below a file":    {[]string{"in/a", "in/a-b", "in/a/b"}, runtime.ErrBadArchive},
		"the directory":   {[]string{"in/."}, runtime.ErrBadArchive},
		"a long name":     {[]string{"in/" + strings.Repeat("x", 256)}, runtime.ErrBadArchive},
		"too many":        {[]string{"in/a", "in/b", "in/c", "in/d"}, snapshot.ErrTooLarge},
		"too many bytes":  {[]string{"in/aaaaaaaaaaaaaaaaaaaaaaaaaaa", "in/bbbbbbbbbbbbbbbbbbbbbbbbbb"}, snapshot.ErrTooLarge},
		"the same twice":  {[]string{"in/a/b", "in/a/./b"}, nil},
		"none of its own": {[]string{"elsewhere"}, nil},
	} {
		h := newDownloads(t, workload.Mapping{Path: "/data", Volume: "/data", Pattern: "**", SinkPath: "in", Direction: workload.Download})
		h.sync.MaxFiles, h.sync.MaxSize = 3, 50
		h.raw(test.keys...)
		id := h.container()
		_, err := h.download(id)
		require.ErrorIs(t, err, test.want, what)
		if test.want != nil {
			require.Empty(t, h.listed(id, "/data"), what)
		}
	}
}

// An object that is not as large as it was listed is damaged.
func TestDownloadRawChanged(t *testing.T) {
	t.Parallel()
	for what, data := range map[string]string{"shorter": "x", "longer": strings.Repeat("x", 1000), "empty": ""} {
		h := newDownloads(t, workload.Mapping{Path: "/data", Volume: "/data", Pattern: "**", Direction: workload.Download})
		h.raw("a")
		h.bucket.Before(func(c snapshottest.Call) error {
			if c.Op == "get" {
				h.bucket.Set("t/ada/a", []byte(data), start)
			}
			return nil
		})
		id := h.container()
		_, err := h.download(id)
		require.ErrorIs(t, err, snapshot.ErrCorrupt, what)
		require.ErrorContains(t, err, "t/ada/a", what)
		require.Empty(t, h.listed(id, "/data"), what)
	}
}

// A link or a file in the state is never followed.
func TestDownloadBelowLink(t *testing.T) {
	t.Parallel()
	for _, other := range []stateFile{linkOf("a", "/etc"), fileOf("a", "")} {
		h := newDownloads(t)
		p := h.storePart([]stateFile{other, fileOf("a/b", "x"), fileOf("a-", "")}, func(*index.Record) {})
		h.list(snapshot.Snapshot{ID: "s1", Parts: []snapshot.Part{p}})
		id := h.container()
		_, err := h.download(id)
		require.ErrorIs(t, err, snapshot.ErrCorrupt)
		require.Empty(t, h.listed(id, "/etc")["b"])
	}
}
