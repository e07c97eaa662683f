package api_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/internal/pipetest"
	"github.com/hostler/hostler/runtime"
)

const filesURL = "/v1/claims/claim-alice/files"

// sendRaw sends a request whose path is not changed by this program.
func sendRaw(t *testing.T, server *pipetest.Server, method, path, body string) *http.Response {
	t.Helper()
	resp, err := trySend(t, server, method, path, body)
	require.NoError(t, err)
	return resp
}

func trySend(t *testing.T, server *pipetest.Server, method, path, body string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL, strings.NewReader(body))
	require.NoError(t, err)
	r.URL.Opaque = path
	resp, err := server.Client().Transport.RoundTrip(r)
	if err == nil {
		t.Cleanup(func() { resp.Body.Close() })
	}
	return resp, err
}

// A file comes back as it was put, under any path, and nothing of it can be run by a
// browser.
func TestFilesInPaths(t *testing.T) {
	b := newTestBackend()
	server := startServer(t, b)
	for _, name := range []string{
		"plan", "a/b/c", "%2F-", "50%", "a b", "日本/é", "...", "a;b", "a?b#c", "+", "files/x", "memory/y", `"q"`, strings.Repeat("日", 80), ".a", "a:b",
	} {
		escaped := filesURL + "/" + url.PathEscape(name)
		a := request(t, server, "PUT "+escaped, "content of "+name)
		require.Equal(t, 201, a.status, a.text)
		require.Equal(t, name[strings.LastIndex(name, "/")+1:], a.body["name"])
		require.Contains(t, b.Files, "/"+name)
		require.Equal(t, 200, request(t, server, "PUT "+escaped, "content of "+name).status)
		segments := strings.Split(name, "/")
		for i := range segments {
			segments[i] = url.PathEscape(segments[i])
		}
		a = request(t, server, "GET "+filesURL+"/"+strings.Join(segments, "/"), "")
		require.Equal(t, 200, a.status, a.text)
		require.Equal(t, "content of "+name, a.text)
		require.Equal(t, "application/octet-stream", a.header.Get("Content-Type"))
		require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
		require.Equal(t, "sandbox; default-src 'none'", a.header.Get("Content-Security-Policy"))
		require.True(t, strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment"), a.header)
		require.Equal(t, fmt.Sprint(len(a.text)), a.header.Get("Content-Length"))
		a = request(t, server, "DELETE "+escaped, "")
		require.Equal(t, 204, a.status, a.text)
		require.Equal(t, 404, request(t, server, "GET "+escaped, "").status)
	}
}

// A path that could mean another file in the container than in a URL has an error. No
// path is redirected.
func TestFilePathTricks(t *testing.T) {
	b := newTestBackend()
	b.PutFile("/etc/hosts", "x")
	server := startServer(t, b)
	for path, status := range map[string]int{
		"": 404, "/": 409, "/etc/hosts": 200, "/etc/hosts/": 200, "/etc": 409, "/etc%2Fhosts": 200, "%2Fetc/hosts": 404,
		"//etc/hosts": 422, "/etc//hosts": 422, "/etc/./hosts": 422, "/etc/../etc/hosts": 422, "/..": 404, "/%2e%2e/x": 422, "/a/%2e%2e/x": 422, "/..%2fx": 422,
		"/etc%2F%2Fhosts": 422, "/%2Fetc": 422, "/etc/hosts//": 422, "/%2e": 422,
		"/%00": 400, "/a%0Ab": 400, "/%ff": 400, "/a%7F": 400, "/%C0%AE%C0%AE/x": 400, "/%zz": 400,
		"/" + strings.Repeat("a/", 2046) + "aa": 404, "/" + strings.Repeat("a/", 2047): 404, "/" + strings.Repeat("a/", 2047) + "a": 422,
	} {
		require.Equal(t, status, sendRaw(t, server, "GET", filesURL+path, "").StatusCode, "%.50s", path)
	}
	require.NotContains(t, fmt.Sprint(b.Files), "..")
	// An id with a slash does not make another route one of files, whose body has no
	// bound.
	for _, path := range []string{"/v1/claims/x%2Ffiles/memory/k", "/v1/claims/x%2Ffiles%2Fy/activity"} {
		require.Equal(t, 413, sendRaw(t, server, "PUT", path, strings.Repeat("1", 2<<20)).StatusCode)
	}
}

// The access log does not have a file's path.
func TestFilePathsAreNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		b := newTestBackend()
		server := startServer(t, b, func(o *api.Options) {
			o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		b.PutFile("/home/swordfish", "content")
		for _, path := range []string{"/home/swordfish", "/home%2Fswordfish", "/memory/swordfish", "/x/files/swordfish", "/home/swordfish?archive=true"} {
			sendRaw(t, server, "GET", filesURL+path, "")
			sendRaw(t, server, "PUT", filesURL+path+"&mode=9", "")
		}
		b.PutFile("/home/swordfish", strings.Repeat("x", 1<<20))
		b.Fail("content", errors.New("read /home/swordfish: broken"))
		_, err := io.ReadAll(sendRaw(t, server, "GET", filesURL+"/home/swordfish", "").Body)
		require.Error(t, err)
		synctest.Wait()
		require.Contains(t, log.String(), "file not delivered")
		require.Contains(t, log.String(), "path=/v1/claims/claim-alice/files/-")
		require.NotContains(t, log.String(), "swordfish")
	})
}

// lockedBuffer is written while it is read: a request is logged after its response.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A range, and what makes it be ignored.
func TestFileRanges(t *testing.T) {
	b := newTestBackend()
	b.PutFile("/f", "0123456789")
	b.PutFile("/empty", "")
	server := startServer(t, b)
	tag := request(t, server, "GET "+filesURL+"/f", "").header.Get("ETag")
	for _, tt := range []struct {
		headers       string
		status        int
		content, part string
	}{
		{"Range: bytes=0-0", 206, "0", "bytes 0-0/10"},
		{"Range: bytes=2-4", 206, "234", "bytes 2-4/10"},
		{"Range: bytes=7-", 206, "789", "bytes 7-9/10"},
		{"Range: bytes=7-99999999999", 206, "789", "bytes 7-9/10"},
		{"Range: bytes=0-9223372036854775807", 206, "0123456789", "bytes 0-9/10"},
		{"Range: bytes=-3", 206, "789", "bytes 7-9/10"},
		{"Range: bytes=-30", 206, "0123456789", "bytes 0-9/10"},
		{"Range: bytes=10-", 416, "", "bytes */10"},
		{"Range: bytes=99-100", 416, "", "bytes */10"},
		{"Range: bytes=-0", 416, "", "bytes */10"},
		{"Range: bytes=4-2", 200, "0123456789", ""},
		{"Range: bytes=0-1,3-4", 200, "0123456789", ""},
		{"Range: bytes=+1-2", 200, "0123456789", ""},
		{"Range: bytes=-", 200, "0123456789", ""},
		{"Range: lines=1-2", 200, "0123456789", ""},
		{"Range: bytes=99999999999999999999-", 200, "0123456789", ""},
		{"Range: bytes=1-2\nIf-Range: " + tag, 206, "12", "bytes 1-2/10"},
		{"Range: bytes=1-2\nIf-Range: \"other\"", 200, "0123456789", ""},
		{"Range: bytes=1-2\nIf-Range: Fri, 02 Jan 2026 03:04:05 GMT", 200, "0123456789", ""},
		{"If-None-Match: " + tag, 304, "", ""},
		{"If-None-Match: \"x\", " + strings.TrimPrefix(tag, "W/"), 304, "", ""},
		{"If-None-Match: *\nRange: bytes=1-2", 304, "", ""},
		{"If-None-Match: \"x\"", 200, "0123456789", ""},
	} {
		a := request(t, server, "GET "+filesURL+"/f", "", strings.Split(tt.headers, "\n")...)
		require.Equal(t, tt.status, a.status, tt.headers)
		require.Equal(t, tt.part, a.header.Get("Content-Range"), tt.headers)
		if tt.status < 400 {
			require.Equal(t, tt.content, a.text, tt.headers)
			require.Equal(t, tag, a.header.Get("ETag"))
		}
	}
	require.Equal(t, 416, request(t, server, "GET "+filesURL+"/empty", "", "Range: bytes=0-").status)
	a := request(t, server, "GET "+filesURL+"/empty", "")
	require.Equal(t, "0", a.header.Get("Content-Length"))
	a = request(t, server, "HEAD "+filesURL+"/f", "")
	require.Equal(t, "10", a.header.Get("Content-Length"))
	require.Empty(t, a.text)
	require.JSONEq(t, `{"name":"f","type":"file","size":10,"mode":420,"modified":"2026-01-02T03:04:05Z","uid":0,"gid":0}`, a.header.Get("Hostler-File"))
	b.PutFile("/日\U0001F600", "x")
	require.Contains(t, request(t, server, "HEAD "+filesURL+"/"+url.PathEscape("日\U0001F600"), "").header.Get("Hostler-File"), `"\u65e5\ud83d\ude00"`)
}

// Descriptions, and pages of a directory.
func TestFileDescriptions(t *testing.T) {
	b := newTestBackend()
	for i := range 5 {
		b.PutFile(fmt.Sprintf("/d/f%d", i), "x")
	}
	b.PutFile("/d/f\xff", "x")
	server := startServer(t, b)
	a := request(t, server, "GET "+filesURL+"/d?stat=true", "")
	require.Equal(t, "directory", a.body["type"])
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	require.Empty(t, request(t, server, "HEAD "+filesURL+"/d?stat=true", "").text)
	var names []string
	for after, pages := "", 0; pages < 5; pages++ {
		a = request(t, server, "GET "+filesURL+"/d?list=true&limit=2&after="+after, "")
		require.Equal(t, 200, a.status, a.text)
		for _, item := range a.body["items"].([]any) {
			names = append(names, item.(map[string]any)["name"].(string))
		}
		if after = a.body["next"].(string); after == "" {
			break
		}
	}
	require.Equal(t, []string{"f0", "f1", "f2", "f3", "f4", "f\ufffd"}, names)
	require.JSONEq(t, `{"items":[],"next":""}`, request(t, server, "GET "+filesURL+"/tmp?list=true", "").text)
	for _, query := range []string{"?list=true&stat=true", "?list=true&after=*", "?list=true&limit=0", "?list=true&limit=1001", "?lst=true"} {
		require.Equal(t, 422, request(t, server, "GET "+filesURL+"/d"+query, "").status, query)
	}
}

// Each reason of a refusal has a code.
func TestFileErrors(t *testing.T) {
	b := newTestBackend()
	b.PutFile("/d/f", "x")
	server := startServer(t, b)
	for reason, want := range map[runtime.FileReason]string{
		runtime.FileNotFound: "404 file_not_found", runtime.FileDenied: "403 file_denied", runtime.FileNotRegular: "409 not_a_file",
		runtime.FileNotDir: "409 not_directory", runtime.FileNotEmpty: "409 not_empty", runtime.FileOutside: "403 path_outside",
		runtime.FileInvalid: "422 invalid_request", runtime.FileNoSpace: "507 no_space", runtime.FileChanged: "409 file_changed",
		runtime.FileReadOnly: "409 read_only", runtime.FileOtherReason: "502 file_failed", "of a newer container": "502 file_failed",
	} {
		b.Fail("files", &runtime.FileError{Reason: reason, Path: "/d/f", Detail: "why"})
		for _, route := range []string{"GET", "PUT", "DELETE"} {
			a := request(t, server, route+" "+filesURL+"/d/f", "")
			require.Equal(t, want, fmt.Sprint(a.status, " ", a.body["code"]), "%s %s", route, reason)
			require.Contains(t, a.body["detail"], "/d/f: why")
		}
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{runtime.ErrUnsupported, "409 not_supported"},
		{runtime.ErrStaleFence, "409 claim_not_active"},
		{runtime.ErrUnavailable, "503 engine_unavailable"},
	} {
		b.Fail("files", tt.err)
		a := request(t, server, "GET "+filesURL+"/d/f", "")
		require.Equal(t, tt.want, fmt.Sprint(a.status, " ", a.body["code"]), tt.err)
	}
	b.Fail("files", nil)
	b.Fail("gate", &access.DeniedError{Gate: "file.before", Hook: "guard", Message: "no"})
	for _, route := range []string{"GET", "PUT", "DELETE"} {
		a := request(t, server, route+" "+filesURL+"/d/f", "")
		require.Equal(t, "403 denied_by_hook", fmt.Sprint(a.status, " ", a.body["code"]))
	}
	b.Fail("gate", nil)
	a := request(t, server, "GET "+filesURL+"/d", "")
	require.Equal(t, "409 not_a_file", fmt.Sprint(a.status, " ", a.body["code"]))
	require.Contains(t, a.body["detail"], "list=true or archive=true")
	require.Equal(t, 409, request(t, server, "DELETE "+filesURL+"/d", "").status)
	require.Equal(t, 409, request(t, server, "GET /v1/claims/claim-bob/files/d", "").status, "it has ended")
	require.Equal(t, 404, request(t, server, "GET /v1/claims/none/files/d", "").status)
	require.Equal(t, 422, request(t, server, "PUT "+filesURL+"/f?mode=7777", "").status)
	require.Equal(t, 415, request(t, server, "PUT "+filesURL+"/f", "x", "Content-Encoding: gzip").status)
	require.Equal(t, 405, request(t, server, "POST "+filesURL+"/f", "x").status)
	require.Equal(t, "x", string(b.Files["/d/f"].Content))
	require.Equal(t, 204, request(t, server, "DELETE "+filesURL+"/d?recursive=true", "").status)
	last, _ := b.LastFileUse()
	require.Equal(t, apitest.FileUsed{FileUse: access.FileUse{Action: access.FileRemove, Path: "/d"}}, last)
}
