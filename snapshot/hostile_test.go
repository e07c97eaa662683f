package snapshot_test

import (
	"archive/tar"
	"context"
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
	"github.com/hostler/hostler/workload"
)

// sinkFor returns a sink of a workload with one mapping.
func sinkFor(pattern string) *snapshot.Sink { return sinkLimitedTo(pattern, 1<<30) }

func sinkLimitedTo(pattern string, maxSize int64) *snapshot.Sink {
	return snapshot.New(snapshottest.NewMemory(), &workload.Sync{
		Sink: workload.Sink{Prefix: "t/${tenantId}/"}, Keep: 3, MaxSize: maxSize, MaxFiles: 1_000_000,
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

// The server's memory for a state does not depend on how many entries it has, or
// how long their paths are, whether the pattern excludes them or not.
func TestMemoryOfEntries(t *testing.T) {
	const entries = 20_000
	deep := strings.TrimSuffix(strings.Repeat(strings.Repeat("x", 249)+"/", 16), "/")[:3990]
	var dirs []string
	for i := range deep {
		if deep[i] == '/' {
			dirs = append(dirs, deep[:i])
		}
	}
	dirs = append(dirs, deep)
	for _, pattern := range []string{"**", "*.json"} {
		var before, grown int64
		files := scanFunc(func(context.Context, string) tree.Scan {
			s := scanOf()
			s.n = len(dirs) + 2*entries
			s.entry = func(i int) tree.Entry {
				if i < len(dirs) {
					return entry(dirs[i], tree.Dir, 0)
				}
				switch i - len(dirs) {
				case entries:
					before = liveHeap()
				case 2*entries - 1:
					grown = liveHeap() - before
				}
				return entry(fmt.Sprintf("%s/%06d", deep, i), tree.Dir, 0)
			}
			return s
		})
		_, err := sinkFor(pattern).Upload(t.Context(), files, origin("w", "mallory"))
		require.NoError(t, err)
		require.Less(t, grown, int64(12<<20), "pattern %s: %d bytes for each of %d entries", pattern, grown/entries, entries)
	}
}

// Paths that no kernel accepts are the container's error, and so is a state
// beyond the limits, also in what the pattern excludes.
func TestStatesBeyondLimits(t *testing.T) {
	t.Parallel()
	name := func(parts ...string) string { return strings.Join(parts, "/") }
	x := strings.Repeat("x", 255)
	deep := func(n int, last string) []tree.Entry {
		var entries []tree.Entry
		for i := range n {
			entries = append(entries, entry(strings.Repeat("ab/", i)+"ab", tree.Dir, 0))
		}
		return append(entries, entry(strings.Repeat("ab/", n)+last, tree.File, 0))
	}
	for what, test := range map[string]struct {
		entries []tree.Entry
		pattern string
		kind    error
	}{
		"a long component":   {entries: []tree.Entry{entry("a", tree.Dir, 0), entry(name("a", x), tree.File, 0)}},
		"a longer component": {entries: []tree.Entry{entry("a", tree.Dir, 0), entry(name("a", x+"x"), tree.File, 0)}, kind: runtime.ErrBadArchive},
		"a long path":        {entries: deep(1365, "a")},
		"a longer path":      {entries: deep(1365, "ab"), kind: runtime.ErrBadArchive},
		"a long target": {
			entries: []tree.Entry{{Path: "l", Kind: tree.Link, Target: strings.Repeat("x", 4097)}}, kind: runtime.ErrBadArchive,
		},
		"too large":         {entries: []tree.Entry{entry("f", tree.File, 2<<20)}, kind: snapshot.ErrTooLarge},
		"too much excluded": {entries: []tree.Entry{entry("f.tmp", tree.File, 11<<20)}, pattern: "*.json", kind: snapshot.ErrTooLarge},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			pattern := "**"
			if test.pattern != "" {
				pattern = test.pattern
			}
			_, err := sinkLimitedTo(pattern, 1<<20).Upload(t.Context(), listed(test.entries...), origin("w", "mallory"))
			if test.kind == nil {
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
// them, once each and with their modes.
func TestLeftOutDirectories(t *testing.T) {
	t.Parallel()
	mode := func(name string, mode int64) file { return file{name, tar.TypeDir, mode, ""} }
	h := newHarness(t, "{sink: {type: file}, mappings: [{path: /data, pattern: '**/*.json'}]}")
	h.upload(h.container(
		mode("a", 0o700), mode("a/b", 0o711), reg("a/b/x.json", "x"), reg("a/b/y.json", "y"), mode("a/c", 0o755), mode("a/d", 0o770), reg("a/d/z.json", "z"),
		mode("ab", 0o750), reg("ab/z.json", "z"), mode("b", 0o711), reg("b/x", ""),
	))
	back, _ := h.download()
	require.Equal(t, map[string]string{
		"a/": "700", "a/b/": "711", "a/b/x.json": "644 x", "a/b/y.json": "644 y", "a/d/": "770", "a/d/z.json": "644 z", "ab/": "750", "ab/z.json": "644 z",
	}, h.has(back, "/data"))
}
