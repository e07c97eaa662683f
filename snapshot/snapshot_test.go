package snapshot_test

import (
	"archive/tar"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot"
)

// A tenant finds its state of one container in the next: files, directories,
// links, modes and unusual names.
func TestUploadDownloadRoundTrip(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	files := []file{
		reg("a", "text"), dir("empty"), dir("sub"), {"sub/secret", tar.TypeReg, 0o600, "s"}, {"sub/run", tar.TypeReg, 0o755, "#!"},
		link("link", "sub/secret"), link("out", "/etc/passwd"), reg("odd\nname \xff", "odd"), reg(strings.Repeat("n", 255), "long"),
		reg(strings.Repeat("deep/", 100)+"f", "deep"), reg("zero", ""),
	}
	first := h.container(files...)
	up := h.upload(first)
	require.NotEmpty(t, up.Snapshot.ID)
	require.False(t, up.Unchanged)
	require.Equal(t, len(h.has(first, "/data")), up.Files)

	second, down := h.download()
	require.Equal(t, h.has(first, "/data"), h.has(second, "/data"))
	require.Equal(t, up.Snapshot.ID, down.Snapshot.ID)
	require.Equal(t, []any{up.Files, up.Bytes, up.Sent}, []any{down.Files, down.Bytes, down.Sent})
}

// A tenant without a snapshot gets no files, and the result has no snapshot.
func TestDownloadWithoutSnapshot(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	_, down := h.download()
	require.Empty(t, down.Snapshot.ID)
	require.Zero(t, down.Files)
	_, err := h.sink.Current(t.Context(), h.owner)
	require.ErrorIs(t, err, snapshot.ErrNoSnapshot)
}

// An unchanged state is not stored again, whatever the order and the container
// of its files. Every difference that a download restores counts as a change.
func TestUnchangedIsNotStored(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	first := h.upload(h.container(reg("a", "1"), dir("d"), reg("d/b", "2"), link("l", "a")))
	puts := len(h.bucket.Calls("put"))

	back, _ := h.download()
	again := h.upload(back)
	require.True(t, again.Unchanged)
	require.Equal(t, first.Snapshot.ID, again.Snapshot.ID)
	require.Zero(t, again.Sent)
	require.Len(t, h.bucket.Calls("put"), puts)

	for what, change := range map[string]file{
		"content": reg("a", "x"), "mode": {"a", tar.TypeReg, 0o600, "1"}, "link": link("l", "d/b"),
		"more": reg("c", ""), "directory's mode": {"d", tar.TypeDir, 0o700, ""},
	} {
		c, _ := h.download()
		h.put(c, "/data", change)
		require.False(t, h.upload(c).Unchanged, what)
	}
}

// Files that are removed in the container are removed from a mirrored state; a
// copied state only grows.
func TestModes(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]map[string]string{
		"sync": {"new": "3", "changed": "2", "file": "now"},
		"copy": {"new": "3", "changed": "2", "file": "now", "old": "1", "kept/": "755", "kept/x": "k"},
	} {
		h := newHarness(t, "{sink: {type: file}, mappings: [{path: /, mode: "+mode+"}]}")
		h.upload(h.container(reg("old", "1"), reg("changed", "1"), dir("kept"), reg("kept/x", "k"), dir("file"), reg("file/was a directory", "")))
		c := h.container(reg("new", "3"), reg("changed", "2"), reg("file", "now"))
		require.False(t, h.upload(c).Unchanged)
		require.Equal(t, want, h.kept(), mode)
		back, _ := h.download()
		require.True(t, h.upload(back).Unchanged, mode)
		require.True(t, h.upload(c).Unchanged, mode)
	}
}

// A pattern selects files; the directories above them keep their modes.
func TestPattern(t *testing.T) {
	t.Parallel()
	h := newHarness(t, `{sink: {type: file}, mappings: [{path: /, pattern: "**/*.json"}]}`)
	h.upload(h.container(reg("a.json", "1"), reg("b.txt", "2"), file{"d", tar.TypeDir, 0o750, ""}, dir("d/e"), reg("d/e/c.json", "3"), dir("f"), reg("f/x", "")))
	require.Equal(t, map[string]string{"a.json": "1", "d/": "750", "d/e/": "755", "d/e/c.json": "3"}, h.kept())
}

// What a snapshot determines in a container follows the workload file, also where no
// file has changed: it is all that a wider pattern selects.
func TestChangedPattern(t *testing.T) {
	t.Parallel()
	narrow, wide := `{sink: {type: file}, mappings: [{path: /, pattern: "*.json"}]}`, "{sink: {type: file}, mappings: [{path: /}]}"
	h := newHarness(t, narrow)
	c := h.container(reg("a.json", "1"))
	first := h.upload(c).Snapshot
	require.False(t, first.Covers(synced(t, wide), "/data/b.txt"))
	h.apply(wide)
	up := h.upload(c)
	require.False(t, up.Unchanged)
	require.Equal(t, first.Parts[0].Index, up.Snapshot.Parts[0].Index)
	require.True(t, up.Snapshot.Covers(synced(t, wide), "/data/b.txt"))
	require.True(t, h.upload(c).Unchanged)
}

// Mappings are stored separately in one snapshot: an unchanged one is not
// stored again when another one changes, missing directories are created, and
// mappings that the workload no longer has stay.
func TestMappings(t *testing.T) {
	t.Parallel()
	both := "{sink: {type: file}, mappings: [{path: sub/state}, {path: /more}, {path: /root/x, direction: upload}]}"
	h := newHarness(t, both)
	c := h.container(reg("sub/state/a", "1"), reg("other", "2"))
	h.put(c, "/more", reg("m", "3"))
	first := h.upload(c).Snapshot
	require.Len(t, first.Parts, 3)

	back, _ := h.download()
	require.Equal(t, map[string]string{"sub/": "755", "sub/state/": "755", "sub/state/a": "644 1"}, h.has(back, "/data"))
	require.Equal(t, map[string]string{"m": "644 3"}, h.has(back, "/more"))
	h.put(back, "/more", reg("m", "4"))
	second := h.upload(back).Snapshot
	require.Equal(t, first.Parts[0].Index, second.Parts[0].Index)
	require.NotEqual(t, first.Parts[1].Index, second.Parts[1].Index)
	require.Positive(t, first.Parts[0].New)
	require.Zero(t, second.Parts[0].New, "an unchanged part has stored nothing")

	h.apply("{sink: {type: file}, mappings: [{path: sub/state}]}")
	third := h.upload(h.container(reg("sub/state/a", "5"))).Snapshot
	require.Len(t, third.Parts, 3)
	require.Zero(t, third.Parts[1].New)
	h.apply(both)
	back, _ = h.download()
	require.Equal(t, map[string]string{"m": "644 4"}, h.has(back, "/more"))
}

// A mapping outside of volumes is restored to its path, even if the directory
// does not exist. One that only uploads is not restored.
func TestOutsideOfVolumes(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "{sink: {type: file}, mappings: [{path: /root/a/b}, {path: /data, direction: upload}]}")
	c := h.container(reg("only up", "x"))
	h.put(c, "/", reg("root/a/b/c", "1"))
	require.Equal(t, 2, h.upload(c).Files)
	back, down := h.download()
	require.Equal(t, 1, down.Files)
	require.Equal(t, map[string]string{"c": "644 1"}, h.has(back, "/root/a/b"))
	require.Empty(t, h.has(back, "/data"))
}

// Files that others have put into the sink reach the container if the pattern
// matches them, and are never uploaded.
func TestRawObjects(t *testing.T) {
	t.Parallel()
	h := newHarness(t, `{sink: {type: file}, mappings: [{path: /, pattern: "*.json", direction: download}, {path: sessions}]}`)
	h.upload(h.container(reg("sessions/s", "1"), reg("config.json", "tenant's")))
	for key, body := range map[string]string{
		"alice/config.json": "ours", "alice/sub/x.json": "no", "alice/readme": "no", "alice/dir/": "", "alicf/a.json": "other",
	} {
		h.bucket.Set("tenants/"+key, []byte(body), start)
	}
	require.Equal(t, map[string]string{"config.json": "ours", "sessions/": "755", "sessions/s": "1"}, h.kept())
	for key, body := range h.bucket.Objects() {
		require.False(t, strings.Contains(key, "/packs/") && strings.Contains(string(body), "tenant's"), key)
	}
}

// Such files never include another tenant's snapshots or files, even if the
// prefix of another workload on the same bucket puts its tenants below this
// tenant.
func TestRawObjectsOfOtherTenants(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mapping string
		want    map[string]string
	}{
		{"path: /", map[string]string{"mine": "", "sub/": "755", "sub/too": ""}},
		{"path: /, sink_path: alice", map[string]string{}},
		{"path: /, sink_path: alice/config", map[string]string{}},
		{"path: /, sink_path: sub", map[string]string{"too": ""}},
	} {
		h := newHarness(t, "")
		h.upload(h.container(reg("secret", "alice's")))
		for _, key := range []string{"alice/token", "alice/config/a/b", "alice/../x", "mine", "sub/too"} {
			h.bucket.Set("tenants/"+key, nil, start)
		}
		h.apply("{sink: {type: file, prefix: '${tenantId}/'}, mappings: [{" + c.mapping + ", direction: download}, {path: /more}]}")
		h.owner.Tenant = "tenants"
		h.upload(h.container())
		require.Equal(t, c.want, h.kept(), c.mapping)
	}
}

// What a container lists is untrusted.
func TestHostileContainer(t *testing.T) {
	t.Parallel()
	file := func(name string) tree.Entry { return entry(name, tree.File, 1) }
	with := func(e tree.Entry, change func(*tree.Entry)) tree.Entry { change(&e); return e }
	for what, entries := range map[string][]tree.Entry{
		"upwards":               {file("../f")},
		"upwards later":         {entry("a", tree.Dir, 0), file("a/../../f")},
		"not clean":             {entry("a", tree.Dir, 0), file("a//f")},
		"the directory itself":  {entry(".", tree.Dir, 0)},
		"no name":               {file("")},
		"absolute":              {file("/etc/f")},
		"through a link":        {entry("out", tree.Link, 0), file("out/passwd")},
		"through a link, deep":  {entry("out", tree.Link, 0), file("out/a/b/c")},
		"through a file":        {file("f"), file("f/g")},
		"without a directory":   {file("a/b")},
		"in a later directory":  {entry("a", tree.Dir, 0), entry("a/b", tree.Dir, 0), file("a/c"), file("a/c/d")},
		"another kind":          {entry("pipe", 'p', 0)},
		"twice":                 {file("a"), file("a")},
		"not in order":          {file("b"), file("a")},
		"in the order of bytes": {entry("a", tree.Dir, 0), file("a-"), file("a/b")},
		"a negative size":       {entry("a", tree.File, -1)},
		"a directory's size":    {entry("a", tree.Dir, 1)},
		"set-uid":               {with(file("a"), func(e *tree.Entry) { e.Mode = 0o4755 })},
		"an owner":              {with(file("a"), func(e *tree.Entry) { e.Owner = -2 })},
		"a group":               {with(file("a"), func(e *tree.Entry) { e.Group = 1 << 32 })},
		"no target":             {with(entry("a", tree.Link, 0), func(e *tree.Entry) { e.Target = "" })},
		"a zero in a target":    {with(entry("a", tree.Link, 0), func(e *tree.Entry) { e.Target = "a\x00" })},
	} {
		h := newHarness(t, "")
		_, err := h.sink.Upload(t.Context(), listed(entries...), h.origin("c"))
		require.ErrorIs(t, err, runtime.ErrBadArchive, what)
		require.ErrorIs(t, err, snapshot.ErrContainer, what)
		require.Empty(t, h.bucket.Objects(), what)
	}
}

// A file that is opened as something else, or whose content is not as long as
// it, is refused.
func TestHostileContent(t *testing.T) {
	t.Parallel()
	const large = 3 << 20
	for what, c := range map[string]struct {
		opened  func(tree.Entry) tree.Entry
		content []extent
	}{
		"another path":    {opened: func(e tree.Entry) tree.Entry { e.Path = "/etc/passwd"; return e }},
		"another kind":    {opened: func(e tree.Entry) tree.Entry { e.Kind = tree.Dir; return e }},
		"set-uid":         {opened: func(e tree.Entry) tree.Entry { e.Mode = 0o4755; return e }},
		"negative":        {opened: func(e tree.Entry) tree.Entry { e.Size = -1; return e }},
		"empty":           {content: []extent{}},
		"short":           {content: []extent{{hole: large - 1}}},
		"long":            {content: []extent{{hole: large}, {data: "x"}}},
		"a large hole":    {content: []extent{{hole: 1 << 60}}},
		"a negative hole": {content: []extent{{hole: -1}}},
		"both":            {content: []extent{{data: "x", hole: large - 1}}},
		"neither":         {content: []extent{{}}},
		"an overflow":     {content: []extent{{data: "x", hole: 1<<63 - 1}}},
	} {
		h := newHarness(t, "")
		files := scanFunc(func(context.Context, string) tree.Scan {
			s := scanOf(entry("f", tree.File, large))
			s.opened = c.opened
			if c.content != nil {
				s.content = func(tree.Entry) tree.Content { return &extents{slices.Clone(c.content)} }
			}
			return s
		})
		_, err := h.sink.Upload(t.Context(), files, h.origin("c"))
		require.ErrorIs(t, err, runtime.ErrBadArchive, what)
		require.ErrorIs(t, err, snapshot.ErrContainer, what)
		require.Empty(t, h.bucket.Objects(), what)
	}
}

// A scan that fails is an error, wherever it ends, and never a smaller state.
func TestBrokenScan(t *testing.T) {
	t.Parallel()
	for n := range 5 {
		for _, inFile := range []bool{false, true} {
			h := newHarness(t, "{sink: {type: file}, mappings: [{path: /data}, {path: /more}]}")
			scans := 0
			files := scanFunc(func(context.Context, string) tree.Scan {
				var entries []tree.Entry
				for i := range 3 * testBatch / 2 {
					entries = append(entries, entry(fmt.Sprintf("%03d", i), tree.File, 10))
				}
				s := scanOf(entries...)
				if scans++; scans == 1 {
					return s // the first mapping is complete
				}
				if !inFile {
					s.n, s.end = 3*testBatch/8*n, errTruncated
				}
				s.content = func(e tree.Entry) tree.Content {
					if inFile && s.reads == 3*testBatch/8*n {
						return &extents{[]extent{{data: "12345"}, {err: errTruncated}}}
					}
					return extentsOf("1234567890")
				}
				return s
			})
			_, err := h.sink.Upload(t.Context(), files, h.origin("c"))
			require.ErrorIs(t, err, errTruncated, "after %d", n)
			require.Empty(t, h.bucket.Calls("put"))
		}
	}
}

// A state beyond its limits is refused before it is stored.
func TestStateLimits(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		sync  string
		files []file
	}{
		"bytes":             {"{sink: {type: file}, max_size: 1k}", []file{reg("a", strings.Repeat("x", 600)), reg("b", strings.Repeat("x", 600))}},
		"files":             {"{sink: {type: file}, max_files: 2}", []file{reg("a", ""), dir("b"), link("c", "a")}},
		"in several places": {"{sink: {type: file}, max_files: 2, mappings: [{path: a}, {path: b}]}", []file{reg("a/1", ""), reg("a/2", ""), reg("b/1", "")}},
	} {
		h := newHarness(t, c.sync)
		_, err := h.sink.Upload(t.Context(), h.rt, h.origin(h.container(c.files...)))
		require.ErrorIs(t, err, snapshot.ErrTooLarge, what)
		_, err = h.sink.Current(t.Context(), h.owner)
		require.ErrorIs(t, err, snapshot.ErrNoSnapshot, what)
	}
}
