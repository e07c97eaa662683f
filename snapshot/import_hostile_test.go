package snapshot_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
)

// endless repeats some bytes.
type endless struct {
	bytes []byte
	at    int
	read  int64
}

func (e *endless) Read(b []byte) (int, error) {
	n := copy(b, e.bytes[e.at:])
	e.at = (e.at + n) % len(e.bytes)
	e.read += int64(n)
	return n, nil
}

// Headers without an entry do not count as entries, and are bounded.
func TestImportOfEndlessHeaders(t *testing.T) {
	t.Parallel()
	for _, kind := range []byte{tar.TypeXHeader, tar.TypeGNULongName, tar.TypeGNULongLink} {
		h := newHarness(t, "")
		body := strings.Repeat("x", 100<<10)
		if kind == tar.TypeXHeader {
			body = fmt.Sprintf("%d comment=%s\n", len(body)-1, body[:len(body)-len("102399 comment=\n")-1])
		}
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		require.NoError(t, w.WriteHeader(&tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: int64(len(body)), Format: tar.FormatUSTAR}))
		_, err := io.WriteString(w, body)
		require.NoError(t, err)
		require.NoError(t, w.Flush())
		header := b.Bytes()
		sum := int(header[156])
		header[156] = kind
		var old int
		_, err = fmt.Sscanf(string(header[148:154]), "%o", &old)
		require.NoError(t, err)
		copy(header[148:], fmt.Sprintf("%06o\x00 ", old-sum+int(kind)))
		from := &endless{bytes: header}
		_, err = h.sink.Import(t.Context(), h.origin(""), from, always)
		require.ErrorIs(t, err, runtime.ErrBadArchive)
		require.ErrorContains(t, err, "headers", string(kind))
		require.Less(t, from.read, int64(9<<20))
		require.Empty(t, h.bucket.Objects())
	}
}

// An entry is in each mapping that keeps it, as at an upload: an export and its
// import lose nothing when two mappings have one directory, or one is in the other.
func TestImportIntoSeveralMappings(t *testing.T) {
	t.Parallel()
	h := newHarness(t, `{sink: {type: file}, mappings: [{path: /data, pattern: "**/*.a"}, {path: /data, pattern: "**/*.b", sink_path: b},
		{path: /data/in, pattern: "*.c", sink_path: c}]}`)
	want := map[string]string{"x.a": "1", "in/": "755", "in/y.a": "2", "in/y.b": "3", "in/y.c": "4"}
	var files []file
	for name, body := range want {
		if !strings.HasSuffix(name, "/") {
			files = append(files, reg(name, body))
		}
	}
	h.upload(h.container(append(files, reg("in/y.d", "5"))...))
	require.Equal(t, want, h.kept())
	sizes := func(s snapshot.Snapshot) (files []int) {
		for _, p := range s.Parts {
			files = append(files, p.Files)
		}
		return files
	}
	list, err := h.sink.List(t.Context(), h.owner)
	require.NoError(t, err)
	out := h.exported("")
	require.Equal(t, sizes(list[0]), sizes(h.importTar(out)))
	require.Equal(t, want, h.kept())
	require.Equal(t, out, h.exported(""))
}

// A list of snapshots that describes more than the workload allows is refused before
// anything is written: a small pack can be the content of any number of files.
func TestDownloadBeyondLimits(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	h.upload(h.container(reg("a", strings.Repeat("a", 2000)), reg("b", "")))
	for _, sync := range []string{"max_size: 1k", "max_files: 1"} {
		h.apply("{sink: {type: file}, " + sync + "}")
		c := h.container()
		_, err := h.sink.Download(t.Context(), h.rt, snapshot.Destination{Owner: h.owner, Container: c})
		require.ErrorIs(t, err, snapshot.ErrTooLarge)
		require.ErrorContains(t, err, "raise it")
		require.Empty(t, h.has(c, "/data"))
	}
	h.apply("{sink: {type: file}, max_size: 2000, max_files: 2}")
	require.Len(t, h.kept(), 2)
}

// A pipe in place of an object would keep an open waiting, whatever its context does.
func TestPipeInPlaceOfAnObject(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	sinks := snapshot.NewSinks(snapshot.PathPolicy{State: state}, nil)
	t.Cleanup(func() { require.NoError(t, sinks.Close()) })
	b, err := sinks.BucketOf(t.Context(), synced(t, ""))
	require.NoError(t, err)
	require.NoError(t, syscall.Mkfifo(filepath.Join(state, "pipe"), 0o600))
	_, err = b.Get(t.Context(), "pipe")
	require.ErrorIs(t, err, snapshot.ErrNoObject)
	_, err = b.GetRange(t.Context(), "pipe", 0, 1)
	require.ErrorIs(t, err, snapshot.ErrNoObject)
}

// The names of an archive come from the list of snapshots too.
func TestListLeadsOutOfAnArchive(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	h.upload(h.container(reg("a", "b")))
	dir, head, err := h.sink.Head(t.Context(), h.owner)
	require.NoError(t, err)
	head.Snapshots[0].Parts[0].Path, head.Snapshots[0].Parts[0].SinkPath = "/../../root/.ssh", "gone"
	data, err := json.Marshal(head)
	require.NoError(t, err)
	h.bucket.Set(fmt.Sprintf("%sheads/%016d.json", dir, head.Generation), data, time.Now())
	_, err = h.sink.Export(t.Context(), h.owner, "", into(io.Discard))
	require.ErrorIs(t, err, snapshot.ErrCorrupt)
}

// A time that no file can have does not make a state that no container can get.
func TestImportOfAnImpossibleTime(t *testing.T) {
	t.Parallel()
	for _, second := range []int64{1 << 60, -1 << 60} {
		h := newHarness(t, "")
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		require.NoError(t, w.WriteHeader(&tar.Header{Name: "data/a", Typeflag: tar.TypeReg, Format: tar.FormatPAX, ModTime: time.Unix(second, 0)}))
		require.NoError(t, w.Close())
		h.importTar(b.Bytes())
		for _, e := range entries(t, h.exported("")) {
			require.Less(t, e.header.ModTime.Unix(), int64(1<<40))
			require.Greater(t, e.header.ModTime.Unix(), int64(-1<<40))
		}
		require.Len(t, h.kept(), 1)
	}
}

// An owner that no container accepts is refused before it is in a state.
func TestImportOfNoUser(t *testing.T) {
	t.Parallel()
	for id, ok := range map[int]bool{1<<32 - 2: true, 1<<32 - 1: false} {
		h := newHarness(t, "")
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		require.NoError(t, w.WriteHeader(&tar.Header{Name: "data/a", Typeflag: tar.TypeReg, Format: tar.FormatPAX, Uid: id, Gid: id}))
		require.NoError(t, w.Close())
		_, err := h.sink.Import(t.Context(), h.origin(""), &b, always)
		if ok {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, runtime.ErrBadArchive)
	}
}
