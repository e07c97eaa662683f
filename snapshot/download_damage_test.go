package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/index"
	packs "github.com/hostler/hostler/snapshot/pack"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// Damage of any object is found and named, and no file ever has wrong content.
// Another snapshot that does not need the object is downloaded.
func TestDownloadOfDamage(t *testing.T) {
	t.Parallel()
	h := newDownloads(t)
	h.apart = true
	other := h.store("s0", []stateFile{fileOf("other", "o")})
	before := h.bucket.Objects()
	files := []stateFile{fileOf("a", incompressible(1000)), dirOf("d"), fileOf("d/b", "text"), fileOf("d/c", strings.Repeat("text ", 1000)), linkOf("l", "a")}
	s := h.store("s1", files)
	want := expected(files)
	for key, data := range h.bucket.Objects() {
		if _, is := before[key]; is || !strings.Contains(key, "/packs/") {
			continue
		}
		damages := map[string]func([]byte) []byte{
			"cut off": func(b []byte) []byte { return b[:len(b)-1] },
			"empty":   func([]byte) []byte { return nil },
			"removed": nil,
			"a byte more": func(b []byte) []byte {
				return bytes.Join([][]byte{b[:len(b)/2], b[len(b)/2:]}, []byte{0})
			},
		}
		for i := len("HOSTPCK1"); i < len(data); i += 1 + len(data)/40 { // the header is not read
			damages[fmt.Sprint("bit in byte ", i)] = func(b []byte) []byte {
				b = bytes.Clone(b)
				b[i] ^= 1 << (i % 8)
				return b
			}
		}
		for what, damage := range damages {
			if h.bucket.Set(key, data, start); damage == nil {
				require.NoError(t, h.bucket.Delete(t.Context(), key))
			} else {
				h.bucket.Set(key, damage(data), start)
			}
			id := h.container()
			_, err := h.download(id)
			require.Error(t, err, what)
			if !strings.Contains(err.Error(), "no state keys") { // a bit of it means that it is encrypted
				require.ErrorIs(t, err, snapshot.ErrCorrupt, what)
			}
			require.ErrorContains(t, err, key[strings.LastIndexByte(key, '/')+1:], what)
			for name, is := range h.listed(id, "/data") {
				require.Equal(t, want[name], is, what)
			}
			h.bucket.Set(key, data, start)
		}
	}
	h.list(other)
	id, _ := h.fresh()
	require.Equal(t, expected([]stateFile{fileOf("other", "o")}), h.listed(id, "/data"))
	h.list(s)
	id, _ = h.fresh()
	require.Equal(t, want, h.listed(id, "/data"))
}

// An index from someone who has the bucket's keys cannot lead outside of the
// directory, or exceed what the list of snapshots names.
func TestDownloadOfHostileIndex(t *testing.T) {
	t.Parallel()
	big := fileOf("a", "x")
	for what, test := range map[string]struct {
		files  []stateFile
		change func(*index.Record)
		part   func(*snapshot.Part)
	}{
		"upwards":           {files: []stateFile{fileOf("../a", "x")}},
		"upwards within":    {files: []stateFile{fileOf("a/../../b", "x")}},
		"absolute":          {files: []stateFile{fileOf("/etc/passwd", "x")}},
		"the directory":     {files: []stateFile{dirOf(".")}},
		"a zero":            {files: []stateFile{fileOf("a\x00b", "x")}},
		"a long name":       {files: []stateFile{fileOf(strings.Repeat("x", 256), "x")}},
		"through a link":    {files: []stateFile{linkOf("a", "/"), fileOf("a/b/c", "x")}},
		"no target":         {files: []stateFile{linkOf("a", "")}},
		"a device":          {files: []stateFile{big}, change: func(r *index.Record) { r.Kind = 'c' }},
		"setuid":            {files: []stateFile{big}, change: func(r *index.Record) { r.Mode = 0o4755 }},
		"a negative owner":  {files: []stateFile{big}, change: func(r *index.Record) { r.Owner = -2 }},
		"a larger file":     {files: []stateFile{big}, change: func(r *index.Record) { r.Size = 1 << 50 }},
		"a smaller file":    {files: []stateFile{big}, change: func(r *index.Record) { r.Size = 0 }},
		"a huge hole":       {files: []stateFile{big}, change: func(r *index.Record) { r.Chunks[0] = index.Chunk{Hole: 1 << 62} }},
		"another hash":      {files: []stateFile{big}, change: func(r *index.Record) { r.Chunks[0].Ref.Hash[0] ^= 1 }},
		"a larger chunk":    {files: []stateFile{big}, change: func(r *index.Record) { r.Chunks[0].Ref.Size++ }},
		"a chunk of 4 GiB":  {files: []stateFile{big}, change: func(r *index.Record) { r.Chunks[0].Ref.Size = 1<<32 - 1 }},
		"a longer chunk":    {files: []stateFile{big}, change: func(r *index.Record) { r.Chunks[0].Ref.Length++ }},
		"no chunk":          {files: []stateFile{big}, change: func(r *index.Record) { r.Chunks[0].Ref.Length = 0 }},
		"the pack's header": {files: []stateFile{big}, change: func(r *index.Record) { r.Chunks[0].Ref.Offset = 0 }},
		"beyond the pack":   {files: []stateFile{big}, change: func(r *index.Record) { r.Chunks[0].Ref.Offset = 8 << 20 }},
		"another pack":      {files: []stateFile{big}, change: func(r *index.Record) { r.Chunks[0].Ref.Pack = packs.ID{1} }},
		"a bomb": {files: []stateFile{fileOf("a", strings.Repeat("x", 1<<20))}, change: func(r *index.Record) {
			r.Size, r.Chunks[0].Ref.Size = 1000, 1000
		}},
		"more files":     {files: []stateFile{big, fileOf("b", "x")}, part: func(p *snapshot.Part) { p.Files = 1 }},
		"more bytes":     {files: []stateFile{big}, part: func(p *snapshot.Part) { p.Bytes = 0 }},
		"a false pack":   {files: []stateFile{big}, part: func(p *snapshot.Part) { p.Index.Pack = "../../x" }},
		"a false hash":   {files: []stateFile{big}, part: func(p *snapshot.Part) { p.Index.Hash = "ff" }},
		"a false size":   {files: []stateFile{big}, part: func(p *snapshot.Part) { p.Index.PackSize = 1 << 19 }},
		"a huge root":    {files: []stateFile{big}, part: func(p *snapshot.Part) { p.Index.Size = 1 << 31 }},
		"no such offset": {files: []stateFile{big}, part: func(p *snapshot.Part) { p.Index.Offset = 1 << 30 }},
	} {
		for _, holds := range []string{"", "s0"} {
			h := newDownloads(t)
			h.cut = 4 << 20
			if test.change == nil {
				test.change = func(*index.Record) {}
			}
			p := h.storePart(test.files, test.change)
			if test.part != nil {
				test.part(&p)
			}
			h.list(snapshot.Snapshot{ID: "s1", Parts: []snapshot.Part{p}})
			id := h.container()
			clean := h.listed(id, "/etc")
			_, err := h.update(id, holds)
			require.True(t, errors.Is(err, snapshot.ErrCorrupt) || what == "a larger file" && errors.Is(err, snapshot.ErrTooLarge), "%s: %v", what, err)
			require.NotContains(t, h.listed(id, "/"), "a", what)
			require.Equal(t, clean, h.listed(id, "/etc"), what)
		}
	}
}

// discarding is a container that discards what is written to it.
type discarding struct {
	stalledCalls
	bytes, entries atomic.Int64
	peak           atomic.Uint64
}

func (d *discarding) FillTree(_ context.Context, _, _ string, _ int64, _ func([]tree.Stamp)) (tree.Writer, error) {
	return d, nil
}

func (d *discarding) Create(tree.Entry) error {
	if d.entries.Add(1)%500 == 0 {
		d.sample()
	}
	return nil
}

func (d *discarding) Write(data []byte) error {
	if n := int64(len(data)); d.bytes.Add(n)>>24 != (d.bytes.Load()-n)>>24 {
		d.sample()
	}
	return nil
}

func (d *discarding) sample() {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	d.peak.Store(max(d.peak.Load(), m.HeapAlloc))
}

// The memory of a download is bounded, whatever a state expands to, and however
// large its files, its paths and its lists of chunks are.
func TestDownloadMemory(t *testing.T) {
	long := strings.Repeat(strings.Repeat("x", 200)+"/", 18)
	for what, files := range map[string]func(h *downloads) []stateFile{
		"bombs": func(*downloads) (files []stateFile) {
			for i := range 60 {
				files = append(files, fileOf(fmt.Sprintf("%03d", i), strings.Repeat(string(rune('a'+i)), 4<<20)))
			}
			return files
		},
		"chunks": func(h *downloads) []stateFile {
			h.cut = 8
			return []stateFile{fileOf("a", incompressible(1<<20))}
		},
		"paths": func(*downloads) (files []stateFile) {
			for i := range 6000 {
				files = append(files, fileOf(fmt.Sprint(long, i), "x"))
			}
			return files
		},
		"content": func(*downloads) (files []stateFile) {
			for i := range 30 {
				files = append(files, fileOf(fmt.Sprintf("%03d", i), fmt.Sprint(i)+incompressible(4<<20-2)))
			}
			return files
		},
	} {
		if what != "bombs" && !testenv.IsFull() {
			continue // bombs expand to the most bytes, with little effort
		}
		h := newDownloads(t)
		h.cut = 4 << 20
		s := h.store("s1", files(h))
		var before goruntime.MemStats
		goruntime.GC()
		goruntime.ReadMemStats(&before)
		to := &discarding{}
		down, err := h.sink.Download(t.Context(), to, h.to("c"))
		require.NoError(t, err, what)
		require.Equal(t, []int64{s.Bytes(), s.Bytes()}, []int64{to.bytes.Load(), down.MovedBytes}, what)
		require.Less(t, int64(to.peak.Load())-int64(before.HeapAlloc), int64(72<<20), what) //nolint:gosec // below an exabyte
	}
}

// A download that fails in the middle, at any call of the sink, is an error. It
// never finishes the tree.
func TestDownloadOfFailingSink(t *testing.T) {
	t.Parallel()
	h := newDownloads(t)
	h.cut = 100_000
	var files []stateFile
	for i := range 30 {
		files = append(files, fileOf(fmt.Sprintf("%03d", i), fmt.Sprint(i)+incompressible(400_000)))
	}
	h.store("s1", files)
	calls := len(h.bucket.Calls(""))
	h.fresh()
	calls = len(h.bucket.Calls("")) - calls
	require.Greater(t, calls, 5)
	var closed atomic.Bool
	h.rt.After("fill_close", func(context.Context, fake.Call) error { closed.Store(true); return nil })
	for i := range calls {
		var left atomic.Int64
		left.Store(int64(i))
		closed.Store(false)
		h.bucket.Before(func(c snapshottest.Call) error {
			if c.Op == "delete" || c.Op == "put" || strings.Contains(c.Key, "/seen/") {
				return nil // only makes the next upload slower
			}
			if left.Add(-1) < 0 {
				return snapshottest.ErrInjected
			}
			return nil
		})
		_, err := h.download(h.container())
		if err == nil {
			require.GreaterOrEqual(t, left.Load(), int64(0))
			continue
		}
		require.ErrorIs(t, err, snapshottest.ErrInjected)
		require.False(t, closed.Load())
	}
	h.bucket.ClearFailures()
	h.bucket.Before(func(c snapshottest.Call) error {
		if c.Op == "delete" || c.Op == "put" {
			return snapshottest.ErrInjected
		}
		return nil
	})
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		id, _ := h.fresh()
		require.Equal(t, expected(files), h.listed(id, "/data"))
		require.Zero(t, time.Since(begin))
	})
}
