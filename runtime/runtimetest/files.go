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

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// files is PutFiles and GetFiles.
func files(t *testing.T, s *suite) {
	c := s.start(t)
	cases := []struct {
		name string
		run  func(t *testing.T, c *container)
	}{
		{"round trip", roundTrip},
		{"what is put belongs to the user", ownFiles},
		{"put over what is there", putOver},
		{"missing folder", missingFolder},
		{"archives that are refused", refusedArchives},
		{"large", largeFile},
		{"empty", emptyFolder},
		{"last change", lastChange},
		{"given up", givenUp},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) { k.run(t, c) })
	}
}

// item is one entry of an archive.
type item struct {
	name string
	kind byte
	mode int64
	body string // or the target of a link
}

func pack(t *testing.T, items ...item) *bytes.Buffer {
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

// get unpacks what GetFiles gives into items by their names.
func (c *container) get(t *testing.T, dir string) map[string]item {
	t.Helper()
	stream, err := c.rt.GetFiles(t.Context(), c.id, dir)
	require.NoError(t, err, "GetFiles")
	defer stream.Close()
	items := make(map[string]item)
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
		items[name] = item{name, h.Typeflag, h.Mode & 0o777, string(body)}
	}
	_, err = io.Copy(io.Discard, stream)
	require.NoError(t, err, "the stream ends well")
	return items
}

func (c *container) put(t *testing.T, dir string, items ...item) {
	t.Helper()
	require.NoError(t, c.rt.PutFiles(t.Context(), c.id, dir, pack(t, items...)), "PutFiles")
}

func roundTrip(t *testing.T, c *container) {
	c.ok(t, "mkdir", "trip", "755")
	items := []item{
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
	c.put(t, "/data/trip", items...)
	got := c.get(t, "/data/trip")
	for _, want := range items {
		require.Equal(t, want, got[want.name])
	}
	require.Len(t, got, len(items))
	require.Equal(t, "text", c.ok(t, "read", "trip/file"))
	c.ok(t, "chmod", "trip/closed", "755") // so that the next case may clean up
}

func ownFiles(t *testing.T, c *container) {
	mine := strings.Fields(c.ok(t, "stat", "trip"))
	c.put(t, "/data", item{"made/by/us", tar.TypeReg, 0o600, "x"})
	for _, path := range []string{"made", "made/by", "made/by/us"} {
		theirs := strings.Fields(c.ok(t, "stat", path))
		require.Equal(t, mine[2:4], theirs[2:4], "owner of %s", path)
	}
	c.ok(t, "append", "made/by/us", "y")
}

func putOver(t *testing.T, c *container) {
	c.ok(t, "write", "over/file", "old")
	c.ok(t, "write", "over/other", "stays")
	c.put(t, "/data/over", item{"file", tar.TypeReg, 0o644, "new"})
	require.Equal(t, "new", c.ok(t, "read", "over/file"))
	require.Equal(t, "stays", c.ok(t, "read", "over/other"))
}

func missingFolder(t *testing.T, c *container) {
	_, err := c.rt.GetFiles(t.Context(), c.id, "/data/no/such")
	require.ErrorIs(t, err, runtime.ErrNoFile)
	err = c.rt.PutFiles(t.Context(), c.id, "/data/no/such", pack(t, item{"f", tar.TypeReg, 0o644, ""}))
	require.ErrorIs(t, err, runtime.ErrNoFile)
}

func refusedArchives(t *testing.T, c *container) {
	c.ok(t, "mkdir", "jail", "755")
	c.ok(t, "mkdir", "outside", "755")
	cases := map[string]io.Reader{
		"upwards":       pack(t, item{"../outside/f", tar.TypeReg, 0o644, "x"}),
		"upwards later": pack(t, item{"a/../../outside/f", tar.TypeReg, 0o644, "x"}),
		"absolute":      pack(t, item{"/data/outside/f", tar.TypeReg, 0o644, "x"}),
		"through a link": pack(t, item{"out", tar.TypeSymlink, 0o777, "../outside"},
			item{"out/f", tar.TypeReg, 0o644, "x"}),
		"hard link": pack(t, item{"hard", tar.TypeLink, 0o644, "/etc/passwd"}),
		"device":    pack(t, item{"null", tar.TypeChar, 0o644, ""}),
		"pipe":      pack(t, item{"pipe", tar.TypeFifo, 0o644, ""}),
		"cut off":   bytes.NewReader(pack(t, item{"f", tar.TypeReg, 0o644, strings.Repeat("x", 2000)}).Bytes()[:1500]),
		"no tar":    strings.NewReader(strings.Repeat("this is no archive ", 100)),
	}
	for name, archive := range cases {
		err := c.rt.PutFiles(t.Context(), c.id, "/data/jail", archive)
		require.ErrorIs(t, err, runtime.ErrBadArchive, name)
	}
	require.Empty(t, c.get(t, "/data/outside"), "nothing came out")
}

func largeFile(t *testing.T, c *container) {
	body := strings.Repeat("0123456789abcdef", 1<<20)
	c.ok(t, "mkdir", "large", "755")
	c.put(t, "/data/large", item{"file", tar.TypeReg, 0o644, body})
	got := c.get(t, "/data/large")["file"]
	require.True(t, got.body == body, "16 MiB come back as they were")
}

func emptyFolder(t *testing.T, c *container) {
	c.ok(t, "mkdir", "bare", "755")
	require.Empty(t, c.get(t, "/data/bare"))
	c.put(t, "/data/bare")
	require.Empty(t, c.get(t, "/data/bare"))
}

// lastChange is told of what is anywhere below the folders, and of nothing else.
func lastChange(t *testing.T, c *container) {
	c.ok(t, "mkdir", "watched", "755")
	c.ok(t, "mkdir", "watched/below", "755")
	look := func() time.Time {
		at, err := c.rt.Changed(t.Context(), c.id, []string{"/data/nowhere", "/data/watched"})
		require.NoError(t, err)
		return at
	}
	first := look()
	require.False(t, first.IsZero())
	c.ok(t, "write", "beside", "x")
	require.Equal(t, first, look(), "nothing below has changed")
	c.ok(t, "write", "watched/below/file", "x")
	second := look()
	require.True(t, second.After(first), "%s and %s", first, second)
	none, err := c.rt.Changed(t.Context(), c.id, []string{"/data/nowhere"})
	require.NoError(t, err)
	require.True(t, none.IsZero())
	_, err = c.rt.Changed(t.Context(), NewID(), []string{"/data"})
	require.ErrorIs(t, err, runtime.ErrNotFound)
}

// Who gives up an archive, or is lost with its context, leaves no process behind
// that packs or unpacks it.
func givenUp(t *testing.T, c *container) {
	if unable(t, c.Facts.NoProcesses || c.Facts.NoKernel, "to run what packs its files") {
		return
	}
	marker := newMarker()
	c.ok(t, "mkdir", marker, "755")
	dir := "/data/" + marker
	c.put(t, dir, item{"file", tar.TypeReg, 0o644, strings.Repeat("0123456789abcdef", 1<<19)})
	files, err := c.rt.GetFiles(t.Context(), c.id, dir)
	require.NoError(t, err)
	_, err = files.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NotEmpty(t, c.ok(t, "ps", marker), "what packs waits for its reader")
	require.NoError(t, files.Close())
	eventually(t, "what packs has ended", func() bool { return c.ok(t, "ps", marker) == "" })

	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	put := make(chan error, 1)
	go func() { put <- c.rt.PutFiles(ctx, c.id, dir, reader) }() // ends with the context
	eventually(t, "what unpacks", func() bool { return c.ok(t, "ps", marker) != "" })
	cancel()
	require.ErrorIs(t, <-put, context.Canceled)
	require.NoError(t, writer.Close())
	eventually(t, "what unpacks has ended", func() bool { return c.ok(t, "ps", marker) == "" })
}
