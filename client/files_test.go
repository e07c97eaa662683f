package client_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/client"
)

// A file comes back as it was written, under any name.
func TestFileCalls(t *testing.T) {
	b := memoryBackend()
	c, ctx := serveThrough(t, b, nil), t.Context()
	for _, name := range []string{"/plan", "/a/b", "/50% done?#", "/日本/é", "/%2F-"} {
		written, err := c.WriteFile(ctx, "claim-1", name, 0o640, strings.NewReader("content"))
		require.NoError(t, err)
		require.Equal(t, client.FileInfo{
			Name: name[strings.LastIndex(name, "/")+1:], Type: client.TypeFile, Size: 7, Mode: 0o640, Modified: apitest.Time,
		}, written)
		got, err := c.StatFile(ctx, "claim-1", name)
		require.NoError(t, err)
		require.Equal(t, written, got)
		for part, want := range map[client.FileRange]string{{}: "content", {Offset: 3}: "tent", {Offset: 1, Length: 2}: "on", {Length: 3}: "con"} {
			f, err := c.OpenFile(ctx, "claim-1", name, part)
			require.NoError(t, err)
			text, err := io.ReadAll(f)
			require.NoError(t, err)
			require.Equal(t, want, string(text))
			require.Equal(t, written, f.FileInfo)
			require.NoError(t, f.Close())
		}
		_, err = c.OpenFile(ctx, "claim-1", name, client.FileRange{Offset: 7})
		requireCode(t, client.CodeRangeNotSatisfiable, err)
		require.NoError(t, c.RemoveFile(ctx, "claim-1", name, false))
		_, err = c.StatFile(ctx, "claim-1", name)
		requireCode(t, client.CodeFileNotFound, err)
	}
}

func requireCode(t *testing.T, code client.Code, err error) {
	t.Helper()
	var refused *client.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, code, refused.Code)
}

// A list has all pages, and ends with an error if there is one.
func TestListFiles(t *testing.T) {
	b := memoryBackend()
	for i := range 2500 {
		b.PutFile(fmt.Sprintf("/d/%04d", i), "")
	}
	c := serveThrough(t, b, nil)
	n := 0
	for info, err := range c.ListFiles(t.Context(), "claim-1", "/d") {
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%04d", n), info.Name)
		n++
	}
	require.Equal(t, 2500, n)
	for _, err := range c.ListFiles(t.Context(), "claim-1", "/none") {
		requireCode(t, client.CodeFileNotFound, err)
	}
	for _, err := range c.ListFiles(t.Context(), "claim-1", "/d") {
		require.NoError(t, err)
		break
	}
}

// What is sent incompletely replaces nothing, and a download that breaks is an error.
func TestBrokenTransfers(t *testing.T) {
	b := memoryBackend()
	b.PutFile("/f", strings.Repeat("x", 1<<20))
	c, ctx := serveThrough(t, b, nil), t.Context()
	broken := errors.New("the disk is gone")
	_, err := c.WriteFile(ctx, "claim-1", "/f", 0o644, io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	_, err = c.WriteTree(ctx, "claim-1", "/d", io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	kept, _ := b.FileAt("/f")
	require.Len(t, kept.Content, 1<<20)
	_, exists := b.FileAt("/d")
	require.False(t, exists)

	b.Fail("content", broken)
	f, err := c.OpenFile(ctx, "claim-1", "/f", client.FileRange{})
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, f)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	tree, err := c.ReadTree(ctx, "claim-1", "/f")
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, tree)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// A change is requested once: if the response is lost, another program may have
// changed the file since.
func TestFileChangesAreNotRetried(t *testing.T) {
	c := serveThrough(t, memoryBackend(), breakFirst(3))
	_, err := c.WriteFile(t.Context(), "claim-1", "/f", 0o644, strings.NewReader("x"))
	require.ErrorIs(t, err, client.ErrNoResponse)
	_, err = c.WriteTree(t.Context(), "claim-1", "/f", strings.NewReader("x"))
	require.ErrorIs(t, err, client.ErrNoResponse)
	require.ErrorIs(t, c.RemoveFile(t.Context(), "claim-1", "/f", true), client.ErrNoResponse)
}

// A tree goes out and in.
func TestTrees(t *testing.T) {
	b := memoryBackend()
	b.PutFile("/d/sub/f", "content")
	c, ctx := serveThrough(t, b, nil), t.Context()
	tree, err := c.ReadTree(ctx, "claim-1", "/d")
	require.NoError(t, err)
	text, err := io.ReadAll(tree)
	require.NoError(t, err)
	h, err := tar.NewReader(bytes.NewReader(text)).Next()
	require.NoError(t, err)
	require.Equal(t, "sub", h.Name)
	info, err := c.WriteTree(ctx, "claim-1", "/copy", bytes.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, client.TypeDirectory, info.Type)
	require.Equal(t, "content", string(b.Files["/copy/sub/f"].Content))
}
