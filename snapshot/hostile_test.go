package snapshot_test

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
	"github.com/hostler/hostler/workload"
)

// archiveFunc implements containers whose archive a function writes.
type archiveFunc func(ctx context.Context, id string, w *tar.Writer) error

func (archiveFunc) CopyIn(context.Context, string, string, int64, io.Reader) error { return nil }

func (a archiveFunc) CopyOut(ctx context.Context, id, _ string) (io.ReadCloser, error) {
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { w.CloseWithError(context.Cause(ctx)) })
	go func() { // ends when the archive is read, or with ctx
		archive := tar.NewWriter(w)
		err := a(ctx, id, archive)
		if err == nil {
			err = archive.Close()
		}
		w.CloseWithError(err)
	}()
	return r, nil
}

// sinkFor returns a sink of a workload with one mapping.
func sinkFor(pattern string) *snapshot.Sink {
	return snapshot.New(snapshottest.NewMemory(), &workload.Sync{
		Sink: workload.Sink{Prefix: "t/${tenantId}/"}, Keep: 3, MaxSize: 1 << 30, MaxFiles: 1_000_000,
		Mappings: []workload.Mapping{{Path: "/data", Pattern: pattern, Direction: workload.Bidirectional, Mode: workload.ModeSync}},
	})
}

func origin(workload, tenant string) snapshot.Origin {
	return snapshot.Origin{Owner: snapshot.Owner{Workload: workload, Tenant: tenant}, Container: tenant, Fence: 1}
}

// liveHeap returns the memory in use.
func liveHeap() int64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // below an exabyte
}

// The server's memory for a state is bounded in bytes for each entry, however
// long its path is, and is zero for entries that the pattern excludes.
func TestMemoryPerEntry(t *testing.T) {
	const entries = 10_000
	deep := strings.TrimSuffix(strings.Repeat(strings.Repeat("x", 249)+"/", 16), "/")
	for pattern, most := range map[string]int64{"**": 160 * entries, "*.json": 1 << 20} {
		var grown int64
		files := archiveFunc(func(_ context.Context, _ string, w *tar.Writer) error {
			add := func(name string) error {
				return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, Format: tar.FormatPAX})
			}
			var errs error
			for i := range deep {
				if deep[i] == '/' {
					errs = errors.Join(errs, add(deep[:i]))
				}
			}
			var before int64
			for i := range 2 * entries {
				if i == entries { // the compressor has all entries
					before = liveHeap()
				}
				errs = errors.Join(errs, add(fmt.Sprint(deep[:3990], "/", i)))
			}
			grown = liveHeap() - before
			return errs
		})
		_, err := sinkFor(pattern).Upload(t.Context(), files, origin("w", "mallory"))
		require.NoError(t, err)
		require.Less(t, grown, most, "pattern %s: %d bytes for each of %d entries", pattern, grown/entries, entries)
	}
}

// Paths that no kernel accepts are the container's error, and so is a state
// beyond the limits, also in what the pattern excludes.
func TestStatesBeyondLimits(t *testing.T) {
	t.Parallel()
	name := func(parts ...string) string { return strings.Join(parts, "/") }
	x := strings.Repeat("x", 255)
	for what, test := range map[string]struct {
		h     tar.Header
		kind  error
		right bool
	}{
		"a long component":   {h: tar.Header{Typeflag: tar.TypeReg, Name: name("a", x)}, right: true},
		"a longer component": {h: tar.Header{Typeflag: tar.TypeReg, Name: name("a", x+"x")}, kind: runtime.ErrBadArchive},
		"a long path":        {h: tar.Header{Typeflag: tar.TypeReg, Name: strings.Repeat("ab/", 1365) + "a"}, right: true},
		"a longer path": {
			h: tar.Header{Typeflag: tar.TypeReg, Name: strings.Repeat("ab/", 1366) + "a"}, kind: runtime.ErrBadArchive,
		},
		"a long target":     {h: tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: strings.Repeat("x", 4097)}, kind: runtime.ErrBadArchive},
		"too large":         {h: tar.Header{Typeflag: tar.TypeReg, Name: "f", Size: 2 << 30}, kind: snapshot.ErrTooLarge},
		"too much excluded": {h: tar.Header{Typeflag: tar.TypeReg, Name: "f.tmp", Size: 11 << 30}, kind: snapshot.ErrTooLarge},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			files := archiveFunc(func(_ context.Context, _ string, w *tar.Writer) error {
				h := test.h
				h.Format = tar.FormatPAX
				err := w.WriteHeader(&h)
				if err == nil && h.Size > 0 {
					_, err = io.CopyN(w, zeroReader{}, 1<<20)
				}
				return err
			})
			pattern := "**"
			if what == "too much excluded" {
				pattern = "*.json"
			}
			_, err := sinkFor(pattern).Upload(t.Context(), files, origin("w", "mallory"))
			if test.right {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, test.kind)
			require.ErrorIs(t, err, snapshot.ErrContainer)
		})
	}
}

// The number of entries that a pattern excludes is bounded as well.
func TestLeftOutEntriesAreLimited(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "{sink: {type: file}, max_files: 2, mappings: [{path: /data, pattern: '*.json'}]}")
	files := []file{reg("a.json", "")}
	for i := range 21 {
		files = append(files, reg(fmt.Sprint(i), ""))
	}
	_, err := h.sink.Upload(t.Context(), h.rt, h.origin(h.container(files[:21]...)))
	require.NoError(t, err)
	_, err = h.sink.Upload(t.Context(), h.rt, h.origin(h.container(files...)))
	require.ErrorIs(t, err, snapshot.ErrTooLarge)
}

// Directories that a pattern excludes are kept where it includes something in
// them, once each and with their modes. The files are correct whatever the
// order of the archive.
func TestLeftOutDirectories(t *testing.T) {
	t.Parallel()
	mode := func(name string, mode int64) file { return file{name, tar.TypeDir, mode, ""} }
	for what, test := range map[string]struct {
		entries []file
		kept    []string
	}{
		"parents first": {
			[]file{mode("a", 0o700), mode("a/b", 0o711), reg("a/b/x.json", "x"), reg("a/b/y.json", "y"), mode("a/c", 0o755), mode("ab", 0o755), reg("ab/z.json", "z")},
			[]string{"a/ 700", "a/b/ 711", "a/b/x.json 644", "a/b/y.json 644", "ab/ 755", "ab/z.json 644"},
		},
		"parents last": {
			[]file{reg("a/b/x.json", "x"), mode("a/b", 0o711), mode("a", 0o700)},
			[]string{"a/b/x.json 644"},
		},
		"in between": {
			[]file{mode("a", 0o700), reg("a/x.json", "x"), mode("b", 0o711), reg("a/y.json", "y"), mode("a", 0o700), reg("a/z.json", "z")},
			[]string{"a/ 700", "a/x.json 644", "a/y.json 644", "a/z.json 644"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			bucket := snapshottest.NewMemory()
			files := archiveFunc(func(_ context.Context, _ string, w *tar.Writer) error { return write(w, test.entries...) })
			sink := snapshot.New(bucket, synced(t, "{sink: {type: file}, mappings: [{path: /data, pattern: '**/*.json'}]}"))
			_, err := sink.Upload(t.Context(), files, origin("w", "alice"))
			require.NoError(t, err)
			back := &recordingContainer{}
			_, err = sink.Download(t.Context(), back, snapshot.Destination{Owner: snapshot.Owner{Workload: "w", Tenant: "alice"}})
			require.NoError(t, err)
			require.Equal(t, test.kept, back.entries)
		})
	}
	_, err := snapshot.New(snapshottest.NewMemory(), synced(t, "")).Upload(t.Context(),
		archiveFunc(func(_ context.Context, _ string, w *tar.Writer) error {
			return write(w, reg("x/y", ""), link("a", "/"), reg("b", ""), reg("a/c/d", ""))
		}), origin("w", "mallory"))
	require.ErrorIs(t, err, runtime.ErrBadArchive, "it is below a link")
}

// write writes entries.
func write(w *tar.Writer, files ...file) error {
	for _, f := range files {
		h := &tar.Header{Name: f.name, Typeflag: f.kind, Mode: f.mode, Format: tar.FormatPAX}
		if f.kind == tar.TypeSymlink {
			h.Linkname = f.body
		} else {
			h.Size = int64(len(f.body))
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.WriteString(w, f.body[:h.Size]); err != nil {
			return err
		}
	}
	return nil
}

// recordingContainer is a container that records what is put into it.
type recordingContainer struct{ entries []string }

func (*recordingContainer) CopyOut(context.Context, string, string) (io.ReadCloser, error) {
	return nil, runtime.ErrFileNotFound
}

func (c *recordingContainer) CopyIn(_ context.Context, _, _ string, _ int64, archive io.Reader) error {
	r := tar.NewReader(archive)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		c.entries = append(c.entries, fmt.Sprintf("%s %o", h.Name, h.Mode))
	}
}

type zeroReader struct{}

func (zeroReader) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
