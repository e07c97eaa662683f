package runtimetest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// fileCases tests CopyIn and CopyOut.
func fileCases(t *testing.T, s *suite) {
	c := s.start(t)
	cases := []struct {
		name string
		run  func(t *testing.T, c *container)
	}{
		{"round trip", roundTrip},
		{"copied files belong to the user", copyInOwner},
		{"copy over existing files", copyInOverwrites},
		{"missing directory", missingDir},
		{"rejected archives", badArchives},
		{"large", largeFile},
		{"empty", emptyDir},
		{"last change", lastModified},
		{"canceled", cancelledCopy},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			s.begin(t)
			k.run(t, c)
		})
	}
}

// archiveEntry is one entry of an archive.
type archiveEntry struct {
	name string
	kind byte
	mode int64
	body string // or the target of a link
}

func pack(t *testing.T, items ...archiveEntry) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, i := range items {
		h := &tar.Header{Name: i.name, Typeflag: i.kind, Mode: i.mode, ModTime: time.Unix(1700000000, 0)}
		if i.kind == tar.TypeSymlink || i.kind == tar.TypeLink {
			h.Linkname = i.body
		} else {
			h.Size = int64(len(i.body))
		}
		require.NoError(t, w.WriteHeader(h))
		if i.kind == tar.TypeReg {
			_, err := io.WriteString(w, i.body)
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	return &b
}

// copyOut unpacks the result of CopyOut into entries by their names.
func (c *container) copyOut(t *testing.T, dir string) map[string]archiveEntry {
	t.Helper()
	stream, err := c.rt.CopyOut(t.Context(), c.id, dir)
	require.NoError(t, err, "GetFiles")
	defer stream.Close()
	items := make(map[string]archiveEntry)
	r := tar.NewReader(stream)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		body, err := io.ReadAll(r)
		require.NoError(t, err)
		if h.Typeflag == tar.TypeSymlink {
			body = []byte(h.Linkname)
		}
		name := strings.TrimSuffix(h.Name, "/")
		items[name] = archiveEntry{name, h.Typeflag, h.Mode & 0o777, string(body)}
	}
	_, err = io.Copy(io.Discard, stream)
	require.NoError(t, err, "the stream ends with io.EOF")
	return items
}

func (c *container) copyIn(t *testing.T, dir string, items ...archiveEntry) {
	t.Helper()
	require.NoError(t, c.rt.CopyIn(t.Context(), c.id, dir, 0, pack(t, items...)), "PutFiles")
}

func roundTrip(t *testing.T, c *container) {
	c.mustExec(t, "mkdir", "trip", "755")
	items := []archiveEntry{
		{"file", tar.TypeReg, 0o640, "text"},
		{"empty", tar.TypeReg, 0o600, ""},
		{"program", tar.TypeReg, 0o755, "#!"},
		{"closed", tar.TypeDir, 0o500, ""},
		{"closed/inside", tar.TypeReg, 0o400, "x"},
		{"nothing in it", tar.TypeDir, 0o755, ""},
		{"link", tar.TypeSymlink, 0o777, "file"},
		{"dangling", tar.TypeSymlink, 0o777, "/no/such/file"},
		{"a name\nwith 'a' newline and \xff", tar.TypeReg, 0o644, "odd"},
		{strings.Repeat("long", 60), tar.TypeReg, 0o644, "long"},
		{"-rf", tar.TypeReg, 0o644, "a dash"},
		{".hidden", tar.TypeReg, 0o644, "dot"},
	}
	c.copyIn(t, "/data/trip", items...)
	got := c.copyOut(t, "/data/trip")
	for _, want := range items {
		require.Equal(t, want, got[want.name])
	}
	require.Len(t, got, len(items))
	require.Equal(t, "text", c.mustExec(t, "read", "trip/file"))
	c.mustExec(t, "chmod", "trip/closed", "755") // so that the next case may clean up
}

func copyInOwner(t *testing.T, c *container) {
	c.mustExec(t, "mkdir", "own", "755")
	want := strings.Fields(c.mustExec(t, "stat", "own"))
	c.copyIn(t, "/data", archiveEntry{"made/by/us", tar.TypeReg, 0o600, "x"})
	for _, path := range []string{"made", "made/by", "made/by/us"} {
		got := strings.Fields(c.mustExec(t, "stat", path))
		require.Equal(t, want[2:4], got[2:4], "owner of %s", path)
	}
	c.mustExec(t, "append", "made/by/us", "y")
}

func copyInOverwrites(t *testing.T, c *container) {
	c.mustExec(t, "write", "over/file", "old")
	c.mustExec(t, "write", "over/other", "stays")
	c.copyIn(t, "/data/over", archiveEntry{"file", tar.TypeReg, 0o644, "new"})
	require.Equal(t, "new", c.mustExec(t, "read", "over/file"))
	require.Equal(t, "stays", c.mustExec(t, "read", "over/other"))
}

func missingDir(t *testing.T, c *container) {
	_, err := c.rt.CopyOut(t.Context(), c.id, "/data/no/such")
	require.ErrorIs(t, err, runtime.ErrFileNotFound)
	err = c.rt.CopyIn(t.Context(), c.id, "/data/no/such", 0, pack(t, archiveEntry{"f", tar.TypeReg, 0o644, ""}))
	require.ErrorIs(t, err, runtime.ErrFileNotFound)
}

func badArchives(t *testing.T, c *container) {
	c.mustExec(t, "mkdir", "jail", "755")
	c.mustExec(t, "mkdir", "outside", "755")
	cases := map[string]io.Reader{
		"upwards":       pack(t, archiveEntry{"../outside/f", tar.TypeReg, 0o644, "x"}),
		"upwards later": pack(t, archiveEntry{"a/../../outside/f", tar.TypeReg, 0o644, "x"}),
		"absolute":      pack(t, archiveEntry{"/data/outside/f", tar.TypeReg, 0o644, "x"}),
		"through a link": pack(t, archiveEntry{"out", tar.TypeSymlink, 0o777, "../outside"},
			archiveEntry{"out/f", tar.TypeReg, 0o644, "x"}),
		"hard link": pack(t, archiveEntry{"hard", tar.TypeLink, 0o644, "/etc/passwd"}),
		"device":    pack(t, archiveEntry{"null", tar.TypeChar, 0o644, ""}),
		"pipe":      pack(t, archiveEntry{"pipe", tar.TypeFifo, 0o644, ""}),
		"cut off":   bytes.NewReader(pack(t, archiveEntry{"f", tar.TypeReg, 0o644, strings.Repeat("x", 2000)}).Bytes()[:1500]),
		"not a tar": strings.NewReader(strings.Repeat("this is not an archive ", 100)),
	}
	for name, archive := range cases {
		err := c.rt.CopyIn(t.Context(), c.id, "/data/jail", 0, archive)
		require.ErrorIs(t, err, runtime.ErrBadArchive, name)
	}
	require.Empty(t, c.copyOut(t, "/data/outside"), "nothing was written outside")
}

func largeFile(t *testing.T, c *container) {
	body := strings.Repeat("0123456789abcdef", 1<<20)
	c.mustExec(t, "mkdir", "large", "755")
	c.copyIn(t, "/data/large", archiveEntry{"file", tar.TypeReg, 0o644, body})
	got := c.copyOut(t, "/data/large")["file"]
	require.True(t, got.body == body, "16 MiB are unchanged")
}

func emptyDir(t *testing.T, c *container) {
	c.mustExec(t, "mkdir", "bare", "755")
	require.Empty(t, c.copyOut(t, "/data/bare"))
	c.copyIn(t, "/data/bare")
	require.Empty(t, c.copyOut(t, "/data/bare"))
}

// lastModified reports changes anywhere below the directories, and no others.
func lastModified(t *testing.T, c *container) {
	c.mustExec(t, "mkdir", "watched", "755")
	c.mustExec(t, "mkdir", "watched/below", "755")
	modified := func() time.Time {
		at, err := c.rt.LastModified(t.Context(), c.id, []string{"/data/nowhere", "/data/watched"})
		require.NoError(t, err)
		return at
	}
	first := modified()
	require.False(t, first.IsZero())
	c.mustExec(t, "write", "sibling", "x")
	require.Equal(t, first, modified(), "nothing below has changed")
	c.mustExec(t, "write", "watched/below/file", "x")
	second := modified()
	require.True(t, second.After(first), "%s and %s", first, second)
	none, err := c.rt.LastModified(t.Context(), c.id, []string{"/data/nowhere"})
	require.NoError(t, err)
	require.True(t, none.IsZero())
	_, err = c.rt.LastModified(t.Context(), NewID(), []string{"/data"})
	require.ErrorIs(t, err, runtime.ErrNotFound)
}

// A copy whose caller stops reading, or whose context ends, leaves no process that
// packs or unpacks.
func cancelledCopy(t *testing.T, c *container) {
	if isUnsupported(t, c.Limitations.NoProcesses || c.Limitations.NoKernel, "to run what packs its files") {
		return
	}
	marker := newMarker()
	c.mustExec(t, "mkdir", marker, "755")
	dir := "/data/" + marker
	c.copyIn(t, dir, archiveEntry{"file", tar.TypeReg, 0o644, strings.Repeat("0123456789abcdef", 1<<19)})
	files, err := c.rt.CopyOut(t.Context(), c.id, dir)
	require.NoError(t, err)
	_, err = files.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NotEmpty(t, c.mustExec(t, "ps", marker), "the packing process waits for its reader")
	require.NoError(t, files.Close())
	testenv.AwaitTrue(t, "the packing process has exited", func() bool { return c.mustExec(t, "ps", marker) == "" })

	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	put := make(chan error, 1)
	go func() { put <- c.rt.CopyIn(ctx, c.id, dir, 0, reader) }() // ends with the context
	testenv.AwaitTrue(t, "the unpacking process runs", func() bool { return c.mustExec(t, "ps", marker) != "" })
	cancel()
	require.ErrorIs(t, <-put, context.Canceled)
	require.NoError(t, writer.Close())
	testenv.AwaitTrue(t, "the unpacking process has exited", func() bool { return c.mustExec(t, "ps", marker) == "" })
}
