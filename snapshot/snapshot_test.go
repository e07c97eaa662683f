package snapshot_test

import (
	"archive/tar"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
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
	require.Equal(t, first.Parts[0].Object, second.Parts[0].Object)
	require.NotEqual(t, first.Parts[1].Object, second.Parts[1].Object)

	h.apply("{sink: {type: file}, mappings: [{path: sub/state}]}")
	h.upload(h.container(reg("sub/state/a", "5")))
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
		require.False(t, strings.Contains(key, "data/") && strings.Contains(string(body), "tenant's"), key)
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

// The archive of a tenant is untrusted.
func TestHostileContainer(t *testing.T) {
	t.Parallel()
	for what, files := range map[string][]file{
		"upwards":              {reg("../f", "x")},
		"upwards later":        {reg("a/../../f", "x")},
		"absolute":             {reg("/etc/f", "x")},
		"through a link":       {link("out", "/etc"), reg("out/passwd", "x")},
		"through a link, deep": {link("out", "/etc"), reg("out/a/b/c", "x")},
		"through a file":       {reg("f", ""), reg("f/g", "x")},
		"hard link":            {reg("f", "x"), {"hard", tar.TypeLink, 0o644, "f"}},
	} {
		h := newHarness(t, "")
		_, err := h.sink.Upload(t.Context(), stream(pack(t, files...)), h.origin("c"))
		require.ErrorIs(t, err, runtime.ErrBadArchive, what)
		require.Empty(t, h.bucket.Objects(), what)
	}
}

// Pipes and devices are dropped and counted. Owners and setuid are not kept.
func TestSpecialFiles(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	archive := pack(t, file{"pipe", tar.TypeFifo, 0o644, ""}, file{"null", tar.TypeChar, 0o644, ""}, file{"su", tar.TypeReg, 0o4755, "x"})
	up, err := h.sink.Upload(t.Context(), stream(archive), h.origin("c"))
	require.NoError(t, err)
	require.Equal(t, 2, up.Snapshot.Parts[0].Skipped)
	back, _ := h.download()
	require.Equal(t, map[string]string{"su": "755 x"}, h.has(back, "/data"))
}

// A truncated stream from a container is an error, wherever it ends, and never
// a smaller state.
func TestBrokenStream(t *testing.T) {
	t.Parallel()
	archive := pack(t, reg("a", strings.Repeat("x", 700)), reg("b", "y"))
	for n := 0; n < len(archive); n += 13 {
		h := newHarness(t, "")
		_, err := h.sink.Upload(t.Context(), stream(archive).truncate(n), h.origin("c"))
		require.ErrorIs(t, err, errTruncated, "after %d bytes", n)
		require.Empty(t, h.bucket.Objects())
	}
	h := newHarness(t, "")
	_, err := h.sink.Upload(t.Context(), stream(append(archive, make([]byte, 2<<20)...)), h.origin("c"))
	require.ErrorIs(t, err, runtime.ErrBadArchive, "an endless tail")
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
