package api_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/internal/pipetest"
	"github.com/hostler/hostler/runtime"
)

// A download that fails after its beginning does not look complete, whatever its
// form; one that fails before has a status.
func TestBrokenDownloads(t *testing.T) {
	b := newTestBackend()
	b.PutFile("/d/f", strings.Repeat("x", 1<<20))
	server := startServer(t, b)
	b.Fail("content", &runtime.FileError{Reason: runtime.FileChanged, Path: "/d/f", Detail: "it became shorter"})
	for _, query := range []string{"/d/f", "/d/f?archive=true", "/d?archive=true"} {
		resp := sendRaw(t, server, "GET", filesURL+query, "")
		require.Equal(t, 200, resp.StatusCode)
		n, err := io.Copy(io.Discard, resp.Body)
		require.Error(t, err, "%s: %d bytes", query, n)
	}
	b.Fail("content", nil)
	b.PutFile("/small", "12")
	b.Fail("content", &runtime.FileError{Reason: runtime.FileChanged, Path: "/small", Detail: "it became shorter"})
	a := request(t, server, "GET "+filesURL+"/small", "")
	require.Equal(t, "409 file_changed", fmt.Sprint(a.status, " ", a.body["code"]))
	// A container that sends less than it has promised.
	b.Fail("content", io.EOF)
	require.Equal(t, 409, request(t, server, "GET "+filesURL+"/small", "").status)
	resp := sendRaw(t, server, "GET", filesURL+"/d/f", "")
	require.Equal(t, 200, resp.StatusCode)
	_, err := io.Copy(io.Discard, resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// A file of the kernel has content and no size.
func TestDownloadOfUnknownSize(t *testing.T) {
	b := newTestBackend()
	server := startServer(t, b)
	b.Files["/proc"] = apitest.File{FileInfo: runtime.FileInfo{Name: "proc", Type: runtime.TypeFile}, Content: []byte("12 34\n")}
	a := request(t, server, "GET "+filesURL+"/proc", "")
	require.Equal(t, "12 34\n", a.text)
	b.Fail("content", errors.New("broken"))
	_, err := trySend(t, server, "GET", filesURL+"/proc", "")
	if err == nil {
		a := sendRaw(t, server, "GET", filesURL+"/proc", "")
		_, err = io.ReadAll(a.Body)
	}
	require.Error(t, err)
}

// A description has no time that JSON has no form for: one file would hide all of a
// directory.
func TestFilesOfTheFuture(t *testing.T) {
	b := newTestBackend()
	server := startServer(t, b)
	b.PutFile("/d/f", "x")
	f := b.Files["/d/f"]
	f.Modified = time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)
	b.Files["/d/f"] = f
	require.Len(t, request(t, server, "GET "+filesURL+"/d?list=true", "").body["items"], 1)
	require.Equal(t, "f", request(t, server, "GET "+filesURL+"/d/f?stat=true", "").body["name"])
	a := request(t, server, "GET "+filesURL+"/d/f", "")
	require.Equal(t, "x", a.text)
	require.Contains(t, a.header.Get("Hostler-File"), "0001-01-01")
}

// An archive goes out and in; a request for it may have its content type only.
func TestArchives(t *testing.T) {
	b := newTestBackend()
	b.PutFile("/d/sub/f", "content")
	server := startServer(t, b)
	a := request(t, server, "GET "+filesURL+"/d", "", "Accept: application/x-tar")
	require.Equal(t, 200, a.status)
	require.Equal(t, "application/x-tar", a.header.Get("Content-Type"))
	require.Equal(t, "attachment; filename=d.tar", a.header.Get("Content-Disposition"))
	var names []string
	for r := tar.NewReader(strings.NewReader(a.text)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		names = append(names, h.Name)
	}
	require.Equal(t, []string{"sub", "sub/f"}, names)
	for _, to := range []string{"/one?archive=true", "/two"} {
		put := request(t, server, "PUT "+filesURL+to, a.text, "application/x-tar")
		require.Equal(t, 200, put.status, put.text)
		require.Equal(t, "directory", put.body["type"])
	}
	require.Equal(t, "content", string(b.Files["/one/sub/f"].Content))
	require.Equal(t, "content", string(b.Files["/two/sub/f"].Content))
	require.Equal(t, 422, request(t, server, "PUT "+filesURL+"/bad", "no archive", "application/x-tar").status)
	require.Equal(t, 404, request(t, server, "GET "+filesURL+"/none?archive=true", "").status)
	require.Empty(t, request(t, server, "HEAD "+filesURL+"/d?archive=true", "").text)
}

// dial sends bytes on a connection of its own and returns its response.
func dial(t *testing.T, server *pipetest.Server, text string) (*pipetest.Conn, *bufio.Reader) {
	t.Helper()
	conn := server.Dial()
	_, err := io.WriteString(conn, strings.ReplaceAll(text, "\n", "\r\n"))
	require.NoError(t, err)
	return conn, bufio.NewReader(conn)
}

// A body that ends early leaves the old file. So does one that does not arrive: the
// client has a time for each part of it.
func TestIncompleteUploads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBackend()
		b.PutFile("/f", "old")
		unhurried := startServer(t, b, longTimeouts)
		server := startServer(t, b, func(o *api.Options) { o.UploadTimeout = 200 * time.Millisecond })
		head := "PUT " + filesURL + "/f HTTP/1.1\nHost: localhost\n"
		for text, want := range map[string]int{
			head + "Content-Length: 10\n\nhalf":                                  400,
			head + "Transfer-Encoding: chunked\n\n4\nhalf\n":                     400,
			head + "Transfer-Encoding: chunked\n\n4\nhalf\n5\nx":                 400,
			head + "Transfer-Encoding: chunked\n\nno number\n":                   400,
			head + "Content-Type: application/x-tar\nContent-Length: 10\n\nhalf": 400,
		} {
			conn, answer := dial(t, unhurried, text)
			require.NoError(t, conn.CloseWrite())
			resp, err := http.ReadResponse(answer, nil)
			require.NoError(t, err, text)
			require.Equal(t, want, resp.StatusCode, text)
			_, answer = dial(t, server, text) // the client stays, and sends nothing
			resp, err = http.ReadResponse(answer, nil)
			require.NoError(t, err, text)
			require.Contains(t, []int{400, 408}, resp.StatusCode, text)
		}
		require.Equal(t, "old", string(b.Files["/f"].Content))
		_, n := b.LastFileUse()
		require.Zero(t, n)
		// A whole one may take longer than that after its body.
		a := request(t, server, "PUT "+filesURL+"/f", "new")
		require.Equal(t, 200, a.status, a.text)
	})
}

// A client that sends a byte at a time has no more time than one that sends nothing.
func TestSlowUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := startServer(t, newTestBackend(), func(o *api.Options) { o.UploadTimeout = time.Second })
		conn, answer := dial(t, server, "PUT "+filesURL+"/f HTTP/1.1\nHost: localhost\nContent-Length: 1000000\n\n")
		done := make(chan struct{})
		go func() { // ends when the connection is closed
			defer close(done)
			for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
				if _, err := conn.Write([]byte("x")); err != nil {
					return
				}
			}
		}()
		resp, err := http.ReadResponse(answer, nil)
		require.NoError(t, err)
		require.Equal(t, 408, resp.StatusCode)
		require.NoError(t, conn.Close())
		<-done
	})
}

// The body is of any size, and is not read into memory by the server itself.
func TestLargeUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBackend()
		server := startServer(t, b)
		content := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB, above the limit of other bodies
		a := request(t, server, "PUT "+filesURL+"/big?mode=600", string(content))
		require.Equal(t, 201, a.status, a.text)
		require.Equal(t, content, b.Files["/big"].Content)
		require.Equal(t, float64(0o600), a.body["mode"])
		requireUsed := func(action access.FileAction, count int) {
			synctest.Wait()
			last, n := b.LastFileUse()
			require.Equal(t, apitest.FileUsed{FileUse: access.FileUse{Action: action, Path: "/big"}, Bytes: 4 << 20}, last)
			require.Equal(t, count, n)
		}
		requireUsed(access.FileWrite, 1)
		require.Equal(t, 413, request(t, server, "PUT /v1/claims/claim-alice/memory/k", string(content)).status)
		a = request(t, server, "GET "+filesURL+"/big", "")
		require.Equal(t, string(content), a.text)
		requireUsed(access.FileRead, 2)
		request(t, server, "HEAD "+filesURL+"/big", "") // it reads nothing
		require.Equal(t, 204, request(t, server, "DELETE "+filesURL+"/big", "").status)
		_, n := b.LastFileUse()
		require.Equal(t, 3, n)
	})
}

// A client that reads nothing holds one of the claim's transfers for the time of a
// write, and not longer.
func TestTransfersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBackend()
		b.PutFile("/big", strings.Repeat("x", 1<<20))
		server := startServer(t, b, func(o *api.Options) { o.WriteTimeout = 8 * time.Second })
		for range 8 {
			dial(t, server, "GET "+filesURL+"/big HTTP/1.1\nHost: localhost\n\n")
		}
		synctest.Wait()
		part := func() response { return request(t, server, "GET "+filesURL+"/big", "", "Range: bytes=0-0") }
		<-time.After(7 * time.Second)
		a := part()
		require.Equal(t, 429, a.status, a.text)
		require.Equal(t, "too_many_requests", a.body["code"])
		require.NotEmpty(t, a.header.Get("Retry-After"))
		require.Equal(t, 200, request(t, server, "GET "+filesURL+"/big?stat=true", "").status, "no transfer")
		<-time.After(time.Second)
		synctest.Wait()
		require.Equal(t, 206, part().status)
	})
}
