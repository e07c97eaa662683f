package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
)

const (
	snapshotsURL = "/v1/workloads/web/snapshots"
	importURL    = snapshotsURL + "/import?tenant=alice"
)

// The last line of a verification is its result. Damage is no error.
func TestVerifySnapshot(t *testing.T) {
	b := newTestBackend()
	b.Verified = snapshot.Verification{
		Snapshots: 1, Files: 3, Bytes: 4, Objects: 5, Requests: 6, Read: 7, Damaged: 8,
		Damages: []snapshot.Damage{{Object: "packs/x", Snapshot: "snap-1", Problem: "it is missing", Files: 9, Paths: []string{"/data/a"}}, {}},
	}
	b.Records["web"] = pool.Record{ID: "web"}
	verify := func(id string) (a *httptest.ResponseRecorder) {
		synctest.Test(t, func(t *testing.T) { a = verifySnapshots(t, b.Options(), id) })
		return a
	}
	for _, id := range []string{"snap-1", "all"} {
		a := verify(id)
		require.Equal(t, 200, a.Code, a.Body)
		require.Equal(t, "application/x-ndjson", a.Header().Get("Content-Type"))
		lines := strings.Split(strings.TrimSpace(a.Body.String()), "\n")
		require.Len(t, lines, 1, "progress comes once a second")
		require.JSONEq(t, `{"result":{"ok":false,"snapshots":1,"files":3,"bytes":4,"objects":5,"requests":6,"read_bytes":7,"damaged":8,"damages":[
			{"object":"packs/x","snapshot":"snap-1","problem":"it is missing","files":9,"paths":["/data/a"]},
			{"object":"","snapshot":"","problem":"","files":0,"paths":[]}]}}`, lines[0])
	}
	require.Equal(t, 404, verify("none").Code)
	b.Fail("verifying", &claim.SyncError{Direction: "verifying", Err: errors.New("no route")})
	a := verify("all")
	require.Equal(t, 502, a.Code)
	require.Contains(t, a.Body.String(), `"code":"sync_failed"`)
}

// verifySnapshots sends a request to verify snapshots of alice. It takes no time in a
// bubble of testing/synctest.
func verifySnapshots(t *testing.T, o api.Options, id string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+snapshotsURL+"/"+id+"/verify?tenant=alice", nil)
	r.RemoteAddr = "127.0.0.1:1"
	return serve(api.New(o), r)
}

// An export is a download with the name of its snapshot. One that fails does not look
// complete; one that fails before its first byte has a status.
func TestExportSnapshot(t *testing.T) {
	b := newTestBackend()
	b.Archive = []byte(strings.Repeat("tar", 1<<20))
	server := startServer(t, b)
	for id, want := range map[string]string{"snap-1": "snap-1", "current": "snap-2"} {
		route := snapshotsURL + "/" + id + "/export?tenant=alice"
		a := request(t, server, "GET "+route, "")
		require.Equal(t, string(b.Archive), a.text)
		require.Equal(t, []string{"application/x-tar", want, "attachment; filename=" + want + ".tar", "sandbox; default-src 'none'"}, []string{
			a.header.Get("Content-Type"), a.header.Get("Hostler-Snapshot"), a.header.Get("Content-Disposition"), a.header.Get("Content-Security-Policy"),
		})
		head := request(t, server, "HEAD "+route, "")
		require.Equal(t, []any{200, want, ""}, []any{head.status, head.header.Get("Hostler-Snapshot"), head.text})
	}
	for _, method := range []string{"GET", "HEAD"} {
		require.Equal(t, 404, request(t, server, method+" "+snapshotsURL+"/none/export?tenant=alice", "").status)
	}
	b.Fail("export", claim.ErrTooManyArchives)
	a := request(t, server, "GET "+snapshotsURL+"/current/export?tenant=alice", "")
	require.Equal(t, []any{429, "too_many_requests", "1"}, []any{a.status, a.body["code"], a.header.Get("Retry-After")})
	b.Fail("export", nil)
	b.Fail("exporting", errors.New("the bucket is gone"))
	resp := sendRaw(t, server, "GET", snapshotsURL+"/current/export?tenant=alice", "")
	require.Equal(t, 200, resp.StatusCode)
	n, err := io.Copy(io.Discard, resp.Body)
	require.Error(t, err, "%d bytes", n)
}

// The body of an import is a tar of any size. What refuses it, and a body that does
// not arrive, has a status, and changes nothing.
func TestImportSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBackend()
		server := startServer(t, b, longTimeouts)
		hurried := startServer(t, b, func(o *api.Options) { o.UploadTimeout = 200 * time.Millisecond })
		body := strings.Repeat("x", 3<<20)
		for call, want := range map[error]string{
			runtime.ErrBadArchive:                      "422 invalid_request",
			snapshot.ErrTooLarge:                       "413 payload_too_large",
			claim.ErrClaimExists:                       "409 claim_exists",
			claim.ErrSyncNotConfigured:                 "409 sync_not_configured",
			claim.ErrTooManyArchives:                   "429 too_many_requests",
			&claim.SyncError{Err: io.EOF}:              "502 sync_failed",
			fmt.Errorf("x: %w", errors.New("unknown")): "500 internal",
		} {
			b.Fail("import", call)
			a := request(t, server, "POST "+importURL, "x", "application/x-tar")
			require.Equal(t, want, fmt.Sprint(a.status, " ", a.body["code"]), a.text)
		}
		b.Fail("import", nil)
		require.Equal(t, 415, request(t, server, "POST "+importURL, body, "text/plain").status)
		require.Equal(t, 415, request(t, server, "POST "+importURL, body, "application/x-tar", "Content-Encoding: gzip").status)
		for _, text := range []string{"Content-Length: 10\n\nhalf", "Transfer-Encoding: chunked\n\n4\nhalf\n"} {
			conn, answer := dial(t, hurried, "POST "+importURL+" HTTP/1.1\nHost: localhost\n"+text)
			resp, err := http.ReadResponse(answer, nil)
			require.NoError(t, err)
			require.Equal(t, 408, resp.StatusCode)
			require.NoError(t, conn.Close())
			conn, answer = dial(t, server, "POST "+importURL+" HTTP/1.1\nHost: localhost\n"+text)
			require.NoError(t, conn.CloseWrite())
			resp, err = http.ReadResponse(answer, nil)
			require.NoError(t, err)
			require.Equal(t, 400, resp.StatusCode)
		}
		require.Empty(t, b.Archive)
		require.Len(t, b.Snapshots, 2)

		a := request(t, server, "POST "+importURL, body, "application/x-tar")
		require.Equal(t, 200, a.status, a.text)
		require.Equal(t, []any{"imported", "import", true, 2.0}, []any{a.body["id"], a.body["reason"], a.body["current"], a.body["files"]})
		require.Equal(t, body, string(b.Archive))
	})
}

// A verification in progress reports it, and its later error is its last line.
func TestVerifyProgress(t *testing.T) {
	o := newTestBackend().Options()
	o.State = slowState{State: o.State, err: errors.New("the bucket is gone")}
	var a *httptest.ResponseRecorder
	synctest.Test(t, func(t *testing.T) { a = verifySnapshots(t, o, "all") })
	require.Equal(t, 200, a.Code)
	lines := strings.Split(strings.TrimSpace(a.Body.String()), "\n")
	require.Len(t, lines, 2)
	require.JSONEq(t, `{"progress":{"snapshot":"s","files":1,"bytes":2,"total_bytes":3,"read_bytes":4}}`, lines[0])
	var last struct{ Error struct{ Code string } }
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &last))
	require.Equal(t, "sync_failed", last.Error.Code)
}

// slowState verifies for longer than the interval of progress.
type slowState struct {
	api.State
	err error
}

func (s slowState) VerifySnapshots(_ context.Context, _, _, _ string, progress func(snapshot.VerifyProgress)) (snapshot.Verification, error) {
	progress(snapshot.VerifyProgress{})
	<-time.After(1100 * time.Millisecond)
	progress(snapshot.VerifyProgress{Snapshot: "s", Files: 1, Bytes: 2, Of: 3, Read: 4})
	return snapshot.Verification{}, &claim.SyncError{Direction: "verifying", Err: s.err}
}
