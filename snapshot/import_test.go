package snapshot_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// importTar makes a tar the current snapshot.
func (h *harness) importTar(archive []byte) snapshot.Snapshot {
	h.Helper()
	s, err := h.sink.Import(h.Context(), h.origin(""), bytes.NewReader(archive), always)
	require.NoError(h, err)
	return s
}

func always(context.Context, snapshot.Snapshot) error { return nil }

func into(w io.Writer) func(snapshot.Snapshot) (io.Writer, error) {
	return func(snapshot.Snapshot) (io.Writer, error) { return w, nil }
}

// exported returns the tar of a snapshot.
func (h *harness) exported(id string) []byte {
	h.Helper()
	var b bytes.Buffer
	_, err := h.sink.Export(h.Context(), h.owner, id, into(&b))
	require.NoError(h, err)
	return b.Bytes()
}

// random returns bytes that do not compress.
func random(size int) string {
	b := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(size)})
	_, _ = r.Read(b)
	return string(b)
}

// A tar that is imported is exported with the same entries, and what is exported is
// imported and exported again as the same bytes.
func TestImportExport(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "{sink: {type: file}, mappings: [{path: /}, {path: /more}]}")
	large := random(7 << 20)
	archive := pack(t,
		dir("data"), reg("data/z", "last"), reg("./data/a", "text"), dir("data/empty"), link("data/link", "../etc"),
		file{"data/sub/secret", tar.TypeReg, 0o600, "s"}, reg("data/odd\nname \xff", "odd"), reg("data/"+strings.Repeat("deep/", 100)+"f", "deep"),
		reg("/data/large", large+strings.Repeat("\x00", 9<<20)+"end"), reg("data/zero", ""), reg("data/zeros", strings.Repeat("\x00", 3000)),
	)
	first := h.importTar(archive)
	require.Equal(t, "import", first.Reason)
	require.Len(t, first.Parts, 2)
	require.Equal(t, 10, first.Files())
	require.Less(t, first.StoredBytes(), int64(8<<20), "zeros are not stored")

	out := h.exported("")
	got := entries(t, out)
	require.Equal(t, "end", got["data/large"].body[16<<20:])
	require.Equal(t, large, got["data/large"].body[:7<<20])
	want := map[string]string{"data/z": "last", "data/a": "text", "data/odd\nname \xff": "odd", "data/sub/secret": "s", "data/zeros": strings.Repeat("\x00", 3000)}
	for name, body := range want {
		require.Equal(t, body, got[name].body, name)
	}
	require.Equal(t, "../etc", got["data/link"].header.Linkname)
	require.Equal(t, int64(0o600), got["data/sub/secret"].header.Mode)
	require.Equal(t, byte(tar.TypeDir), got["more/"].header.Typeflag, "a part without files")
	require.True(t, got["data/a"].header.ModTime.Equal(time.Unix(1700000000, 0)))

	second := h.importTar(out)
	require.NotEqual(t, first.ID, second.ID)
	require.Equal(t, out, h.exported(second.ID))
	require.Equal(t, out, h.exported(first.ID), "the former one is kept")
	list, err := h.sink.List(t.Context(), h.owner)
	require.NoError(t, err)
	require.Equal(t, []string{second.ID, first.ID}, []string{list[0].ID, list[1].ID})
}

type tarEntry struct {
	header *tar.Header
	body   string
}

func entries(t *testing.T, archive []byte) map[string]tarEntry {
	t.Helper()
	all := map[string]tarEntry{}
	in := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		body, err := io.ReadAll(in)
		require.NoError(t, err)
		all[h.Name] = tarEntry{h, string(body)}
	}
}

// A tar of GNU tar is imported, with hard links and holes, and what is exported is
// unpacked by it.
func TestImportOfGNUTar(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	data := filepath.Join(from, "data")
	require.NoError(t, os.Mkdir(data, 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(data, "file"), []byte("text"), 0o640))
	require.NoError(t, os.Link(filepath.Join(data, "file"), filepath.Join(data, "another")))
	sparse, err := os.Create(filepath.Join(data, "sparse"))
	require.NoError(t, err)
	_, err = sparse.WriteAt([]byte("end"), 30<<20)
	require.NoError(t, err)
	require.NoError(t, sparse.Close())
	for _, format := range []string{"gnu", "pax", "--owner=7:7"} {
		flag := "--format=" + format
		if strings.HasPrefix(format, "--") {
			flag = format
		}
		archive, err := exec.CommandContext(t.Context(), "tar", "-C", from, "-c", "--sparse", flag, "./data").Output()
		require.NoError(t, err)
		h := newHarness(t, "")
		h.importTar(archive)
		unpack := exec.CommandContext(t.Context(), "tar", "-C", to, "-x", "--no-same-owner")
		unpack.Stdin = bytes.NewReader(h.exported(""))
		output, err := unpack.CombinedOutput()
		require.NoError(t, err, string(output))
		for _, name := range []string{"file", "another", "sparse"} {
			want, err := os.ReadFile(filepath.Join(data, name))
			require.NoError(t, err)
			got, err := os.ReadFile(filepath.Join(to, "data", name))
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got), name)
		}
	}
}

// Owners are kept as numbers, and root's are the container's user.
func TestImportOwners(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, id := range map[string]int{"data/own": 0, "data/other": 1234} {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o4755, Uid: id, Gid: id}))
	}
	require.NoError(t, w.Close())
	h := newHarness(t, "")
	h.importTar(b.Bytes())
	got := entries(t, h.exported(""))
	require.Equal(t, []int{0, 1234}, []int{got["data/own"].header.Uid, got["data/other"].header.Gid})
	require.Equal(t, int64(0o755), got["data/own"].header.Mode, "without setuid")
}

// Of entries with one name the last one counts; a pattern selects files; pipes and
// devices are not kept.
func TestImportSelects(t *testing.T) {
	t.Parallel()
	h := newHarness(t, `{sink: {type: file}, mappings: [{path: /, pattern: "**/*.json"}]}`)
	s := h.importTar(pack(t,
		reg("data/a.json", "old"), dir("data/d"), dir("data/d/e"), reg("data/d/e/c.json", "3"), dir("data/f"), reg("data/f/x", "no"),
		reg("data/a.json", "new"), file{"data/pipe", tar.TypeFifo, 0o644, ""},
	))
	require.Equal(t, 4, s.Files())
	got := entries(t, h.exported(""))
	require.Len(t, got, 4)
	require.Equal(t, "new", got["data/a.json"].body)
	require.Contains(t, got, "data/d/e/")
}

// The content of a hard link is that of its target, wherever the target is in the
// tar.
func TestImportHardLinks(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	h.importTar(pack(t, file{"data/hard", tar.TypeLink, 0o644, "./data/f"}, reg("data/f", "text")))
	require.Equal(t, "text", entries(t, h.exported(""))["data/hard"].body)
}

// A part that the workload has no mapping for stays, unless the tar has it.
func TestImportKeepsOtherParts(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "{sink: {type: file}, mappings: [{path: /}, {path: /more}]}")
	h.importTar(pack(t, reg("data/a", "1"), reg("more/m", "2")))
	h.apply("{sink: {type: file}, mappings: [{path: /}]}")
	h.importTar(pack(t, reg("data/b", "3")))
	got := entries(t, h.exported(""))
	require.Equal(t, []string{"3", "2"}, []string{got["data/b"].body, got["more/m"].body})
	require.Len(t, got, 2)
	h.importTar(pack(t, reg("more/n", "4")))
	got = entries(t, h.exported(""))
	require.Equal(t, "4", got["more/n"].body)
	require.NotContains(t, got, "more/m")
}

// A tar that Hostler does not accept changes nothing.
func TestImportRefusals(t *testing.T) {
	t.Parallel()
	whole := pack(t, reg("data/a", strings.Repeat("x", 700)), reg("data/b", "y"))
	for what, c := range map[string]struct {
		archive []byte
		text    string
	}{
		"outside":               {pack(t, reg("etc/passwd", "x")), `"etc/passwd" is not below a path that the workload keeps: data`},
		"above":                 {pack(t, reg("data/../x", "x")), ".. component"},
		"a path that is a file": {pack(t, reg("data", "x")), "is not a directory"},
		"below a file":          {pack(t, reg("data/f", "x"), reg("data/f/g", "x")), `"data/f/g" is below "data/f"`},
		"below a link":          {pack(t, link("data/l", "/etc"), reg("data/l/passwd", "x")), `"data/l/passwd" is below "data/l"`},
		"hard link to nothing":  {pack(t, file{"data/h", tar.TypeLink, 0o644, "data/f"}), "--hard-dereference"},
		"hard link to itself":   {pack(t, file{"data/h", tar.TypeLink, 0o644, "data/h"}), "--hard-dereference"},
		"empty":                 {pack(t), "no entries"},
		"nothing":               {nil, "incomplete"},
		"no tar":                {[]byte(random(4096)), "tar"},
		"trailing":              {append(pack(t, reg("data/a", "")), make([]byte, 2<<20)...), "follow its end"},
		"cut between entries":   {whole[:len(whole)-2048], "incomplete"},
		"cut before its end":    {whole[:len(whole)-512], "incomplete"},
		"cut in an entry":       {whole[:1200], `"data/a": `},
		"damaged header":        {slices.Concat(whole[:1536], []byte("?"), whole[1537:]), `after the entry "data/a": `},
	} {
		h := newHarness(t, "")
		_, err := h.sink.Import(t.Context(), h.origin(""), bytes.NewReader(c.archive), always)
		require.ErrorIs(t, err, runtime.ErrBadArchive, what)
		require.ErrorContains(t, err, c.text, what)
		require.Empty(t, h.bucket.Calls("create"), what)
	}
}

// A tar beyond the limits is refused, also for what it has and is not kept.
func TestImportLimits(t *testing.T) {
	t.Parallel()
	many := make([]file, 60)
	for i := range many {
		many[i] = reg("data/"+strings.Repeat("x", i+1), "")
	}
	for what, c := range map[string]struct {
		sync  string
		files []file
	}{
		"bytes":           {"{sink: {type: file}, max_size: 1k}", []file{reg("data/a", strings.Repeat("x", 600)), reg("data/b", strings.Repeat("x", 600))}},
		"files":           {"{sink: {type: file}, max_files: 2}", []file{reg("data/a", ""), dir("data/b"), link("data/c", "a")}},
		"excluded bytes":  {"{sink: {type: file}, max_size: 1k, mappings: [{path: /, pattern: '*.json'}]}", []file{reg("data/a", strings.Repeat("x", 13<<10))}},
		"excluded files":  {"{sink: {type: file}, max_files: 3, mappings: [{path: /, pattern: '*.json'}]}", many},
		"hard-link bytes": {"{sink: {type: file}, max_size: 1k}", []file{reg("data/a", strings.Repeat("x", 600)), {"data/b", tar.TypeLink, 0o644, "data/a"}}},
	} {
		h := newHarness(t, c.sync)
		_, err := h.sink.Import(t.Context(), h.origin(""), bytes.NewReader(pack(t, c.files...)), always)
		require.ErrorIs(t, err, snapshot.ErrTooLarge, what)
		require.Empty(t, h.bucket.Calls("create"), what)
	}
}

// An import of more names than its memory is refused with the limit.
func TestImportMemory(t *testing.T) {
	testenv.FullOnly(t, "memory", "sends 64 MiB of names")
	t.Parallel()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		to := tar.NewWriter(w)
		var err error
		for i := 0; err == nil; i++ {
			err = to.WriteHeader(&tar.Header{Name: "data/" + strings.Repeat(strings.Repeat("x", 250)+"/", 16) + string(rune('a'+i%26)), Mode: 0o644, Typeflag: tar.TypeReg, Format: tar.FormatPAX})
		}
		done <- err
	}()
	h := newHarness(t, "{sink: {type: file}, max_files: 30000}")
	_, err := h.sink.Import(t.Context(), h.origin(""), r, always)
	require.NoError(t, r.Close())
	require.ErrorIs(t, <-done, io.ErrClosedPipe)
	require.ErrorIs(t, err, snapshot.ErrTooLarge)
	require.ErrorContains(t, err, "64 MiB of memory")
}

// After a failure of the bucket at any time, the former snapshot is the current one,
// or the new one is, and both are whole.
func TestImportFailures(t *testing.T) {
	t.Parallel()
	failure := errors.New("failure")
	for _, op := range []string{"put", "create", "list", "get"} {
		h := newHarness(t, "")
		before := h.importTar(pack(t, reg("data/a", "1")))
		h.bucket.Before(func(c snapshottest.Call) error {
			if c.Op == op {
				return failure
			}
			return nil
		})
		_, err := h.sink.Import(t.Context(), h.origin(""), bytes.NewReader(pack(t, reg("data/a", "2"))), always)
		require.ErrorIs(t, err, failure, op)
		h.bucket.ClearFailures()
		now, err := h.sink.Current(t.Context(), h.owner)
		require.NoError(t, err)
		require.Equal(t, before.ID, now.ID, op)
		require.Equal(t, "1", entries(t, h.exported(""))["data/a"].body)
	}
	// The client's own error is returned as it is.
	h := newHarness(t, "")
	_, err := h.sink.Import(t.Context(), h.origin(""), io.MultiReader(bytes.NewReader(pack(t, reg("data/a", "1"))[:700]), failingReader{failure}), always)
	require.ErrorIs(t, err, failure)
	require.NotErrorIs(t, err, runtime.ErrBadArchive)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(failure)
	_, err = h.sink.Import(ctx, h.origin(""), bytes.NewReader(pack(t, reg("data/a", "1"))), always)
	require.ErrorIs(t, err, failure)
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// Of two imports at once one wins, and the other is told.
func TestImportConflict(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	h.importTar(pack(t, reg("data/a", "1")))
	var once bool
	h.bucket.Before(func(c snapshottest.Call) error {
		if c.Op == "put" && !once {
			once = true
			h.importTar(pack(t, reg("data/a", "2")))
		}
		return nil
	})
	_, err := h.sink.Import(t.Context(), h.origin(""), bytes.NewReader(pack(t, reg("data/a", "3"))), always)
	require.ErrorIs(t, err, snapshot.ErrConflict)
	require.Equal(t, "2", entries(t, h.exported(""))["data/a"].body)
}
