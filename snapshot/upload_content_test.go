package snapshot_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
	"github.com/hostler/hostler/workload"
)

// sinkOf returns a sink without limits.
func sinkOf(bucket snapshot.Bucket, mode workload.Mode) *snapshot.Sink {
	return snapshot.New(bucket, &workload.Sync{
		Sink: workload.Sink{Prefix: "t/${tenantId}/"}, Keep: 3, MaxSize: 1 << 50, MaxFiles: 1 << 30,
		Mappings: []workload.Mapping{{Path: "/data", Pattern: "**", Direction: workload.Bidirectional, Mode: mode}},
	})
}

// contents is a container with files of given contents.
type contents struct {
	names []string
	data  map[string][]extent
	scan  *testScan // the last one
}

func (c *contents) set(name string, list ...extent) {
	if c.data == nil {
		c.data = map[string][]extent{}
	}
	if _, there := c.data[name]; !there {
		c.names = append(c.names, name)
		slices.Sort(c.names)
	}
	c.data[name] = list
}

func (c *contents) remove(name string) {
	delete(c.data, name)
	c.names = slices.DeleteFunc(c.names, func(n string) bool { return n == name })
}

func (c *contents) upload(t testing.TB, sink *snapshot.Sink) snapshot.Transfer {
	t.Helper()
	var entries []tree.Entry
	for _, name := range c.names {
		var size int64
		for _, x := range c.data[name] {
			size += int64(len(x.data)) + x.hole
		}
		entries = append(entries, entry(name, tree.File, size))
	}
	files := scanFunc(func(context.Context, string) tree.Scan {
		c.scan = scanOf(entries...)
		c.scan.content = func(e tree.Entry) tree.Content { return &extents{slices.Clone(c.data[e.Path])} }
		return c.scan
	})
	up, err := sink.Upload(t.Context(), files, origin("w", "alice"))
	require.NoError(t, err)
	return up
}

// pieces returns data in the pieces that a scan returns it in.
func pieces(data string) []extent {
	var list []extent
	for part := range slices.Chunk([]byte(data), 64<<10) {
		list = append(list, extent{data: string(part)})
	}
	return list
}

// A change in the middle of a large file stores the chunks around it.
func TestChangeInLargeFile(t *testing.T) {
	t.Parallel()
	sink, c := sinkOf(snapshottest.NewMemory(), workload.ModeSync), &contents{}
	data := incompressible(40 << 20)
	c.set("large", pieces(data)...)
	first := c.upload(t, sink)
	require.Greater(t, first.Snapshot.NewBytes(), int64(40<<20))
	require.True(t, c.upload(t, sink).Unchanged, "it is read and cut in the same way")

	for what, changed := range map[string]string{
		"replaced": data[:20<<20] + strings.Repeat("y", 1000) + data[20<<20+1000:],
		"inserted": data[:20<<20] + "some more" + data[20<<20:],
		"removed":  data[:20<<20] + data[20<<20+1000:],
		"appended": data + "some more",
	} {
		c.set("large", pieces(changed)...)
		up := c.upload(t, sink)
		require.Less(t, up.Snapshot.NewBytes(), int64(9<<20), what)
		require.Greater(t, up.Snapshot.StoredBytes(), int64(39<<20), what)
		c.set("large", pieces(data)...)
		c.upload(t, sink)
	}
}

// Holes and zeros are stored as lengths, and one after the other as one length.
func TestHoles(t *testing.T) {
	t.Parallel()
	sink, c := sinkOf(snapshottest.NewMemory(), workload.ModeSync), &contents{}
	zeros := extent{data: strings.Repeat("\x00", 64<<10)}
	c.set("sparse", slices.Concat(
		pieces(incompressible(1<<20)), []extent{{hole: 10 << 30}, {hole: 10 << 30}, zeros, {hole: 5}}, pieces(incompressible(1<<20)),
	)...)
	c.set("zeros", slices.Repeat([]extent{zeros}, 1000)...)
	c.set("small", zeros)
	up := c.upload(t, sink)
	require.Equal(t, int64(20<<30+2<<20+5+1002*64<<10), up.Bytes)
	require.Less(t, up.Snapshot.NewBytes(), int64(2<<20+10_000))
	require.True(t, c.upload(t, sink).Unchanged)
	c.set("small", extent{hole: 64 << 10})
	require.True(t, c.upload(t, sink).Unchanged, "a hole is as many zeros")
}

// Chunks that files share are stored once, also those of a file with another
// name.
func TestSharedChunks(t *testing.T) {
	t.Parallel()
	sink, c := sinkOf(snapshottest.NewMemory(), workload.ModeSync), &contents{}
	body := pieces(incompressible(100_000))
	for i := range 10 {
		c.set(fmt.Sprint("copy", i), body...)
	}
	require.Less(t, c.upload(t, sink).Snapshot.NewBytes(), int64(110_000))
	for i := range 10 {
		c.remove(fmt.Sprint("copy", i))
	}
	c.set("renamed", body...)
	up := c.upload(t, sink)
	require.Equal(t, int64(100_000), up.Bytes)
	require.Less(t, up.Snapshot.NewBytes(), int64(1000))
}

// A file of more chunks than a record has is compared chunk by chunk, wherever it
// changes.
func TestFileOfManyRecords(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	c := &contents{}
	const n = 5000
	var list []extent
	for i := range n {
		list = append(list, extent{data: fmt.Sprintf("%0500d", i)}, extent{hole: 600})
	}
	change := func(at ...int) {
		changed := slices.Clone(list)
		for _, i := range at {
			changed[2*i].data = strings.Repeat("x", 500)
		}
		c.set("many", changed...)
	}
	sink := sinkOf(h.bucket, workload.ModeSync)
	change()
	c.set("after", pieces("text")...)
	all := c.upload(t, sink).Snapshot.NewBytes()
	require.True(t, c.upload(t, sink).Unchanged)
	for _, at := range [][]int{{0}, {2047}, {2048}, {4095, 4096}, {n - 1}, {}} {
		change(at...)
		up := c.upload(t, sink)
		require.False(t, up.Unchanged, "%v", at)
		require.Less(t, up.Snapshot.NewBytes(), all, "%v", at)
		require.True(t, c.upload(t, sink).Unchanged, "%v", at)
		id := h.container()
		_, err := sink.Download(t.Context(), h.rt, snapshot.Destination{Owner: origin("w", "alice").Owner, Container: id})
		require.NoError(t, err, "%v", at)
		var want strings.Builder
		for _, x := range c.data["many"] {
			want.WriteString(x.data + strings.Repeat("\x00", int(x.hole)))
		}
		require.Equal(t, map[string]string{"after": "644 text", "many": "644 " + want.String()}, h.has(id, "/data"))
	}
}
