package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/pipetest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
)

const file = "id: web\nimage: nginx\npool: {min_idle: 2, max_size: 5}\n"

// newTestBackend returns a backend with one of each record.
func newTestBackend() *apitest.Backend {
	b := apitest.New()
	code := 1
	b.Containers = []pool.Container{
		{ID: "box-1", Workload: "web", State: pool.Claimed, Tenant: "alice", CreatedAt: apitest.Time, ChangedAt: apitest.Time},
		{ID: "box-2", Workload: "web", State: pool.Idle, CreatedAt: apitest.Time, ChangedAt: apitest.Time},
		{ID: "box-3", Workload: "web", State: pool.Destroyed, Reason: "it was old", CreatedAt: apitest.Time, ChangedAt: apitest.Time},
	}
	for attempt := 1; attempt <= 3; attempt++ {
		b.Attempts = append(b.Attempts, hooks.Run{
			ID: "run-1", Attempt: attempt, Point: hooks.PostClaim, Hook: "init", Kind: hooks.KindCommand, Command: []string{"false"},
			Workload: "web", Container: "box-1", Claim: "claim-alice", Tenant: "alice", State: hooks.Failed, Detail: hooks.Detail{ExitCode: &code},
			Stderr: runtime.Output{Head: "boom\n", Total: 5}, StartedAt: apitest.Time,
		})
	}
	b.Attempts = append(b.Attempts, hooks.Run{ID: "run-2", Attempt: 1, Point: hooks.PostCreate, Kind: hooks.KindCommand, Workload: "web", State: hooks.Succeeded, StartedAt: apitest.Time})
	b.Claims = []claim.Claim{
		{ID: "claim-alice", Workload: "web", Tenant: "alice", Container: "box-1", State: claim.Active, CreatedAt: apitest.Time},
		{ID: "claim-bob", Workload: "web", Tenant: "bob", State: claim.Released, CreatedAt: apitest.Time},
	}
	for _, id := range []string{"snap-2", "snap-1"} {
		b.Snapshots = append(b.Snapshots, snapshot.Snapshot{
			ID: id, Time: apitest.Time, Reason: "release", Parts: []snapshot.Part{{Stored: 40, New: 30, Files: 2, Bytes: 100}, {Stored: 2, Files: 1, Bytes: 1}},
		})
	}
	b.Output = "hello from the box\n"
	b.Append(
		activity.Event{Type: activity.WorkloadApplied, Workload: "web", Message: "applied"},
		activity.Event{Type: activity.HookStarted, Workload: "web", Tenant: "alice", Point: "post_claim", Message: "hook init", Data: json.RawMessage(`{"attempt":1}`)},
		activity.Event{Type: activity.HookFailed, Workload: "web", Tenant: "alice", Point: "post_claim", Message: "hook init failed"},
	)
	return b
}

// startServer starts a server of b and applies the file.
func startServer(t *testing.T, b *apitest.Backend, change ...func(*api.Options)) *pipetest.Server {
	t.Helper()
	o := b.Options()
	o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "up 1\n") })
	for _, c := range change {
		c(&o)
	}
	server := pipetest.NewServer(t, api.New(o))
	if o.Auth == nil {
		a := request(t, server, "PUT /v1/workloads/web", file, "application/yaml")
		require.Contains(t, []int{200, 201}, a.status, a.text) // 200 from another server of the backend
	}
	return server
}

type response struct {
	status int
	header http.Header
	text   string
	body   map[string]any
}

// request makes one request. Headers are "Name: value"; the first word without a
// colon is the content type.
func request(t *testing.T, server *pipetest.Server, route, body string, headers ...string) response {
	t.Helper()
	method, path, _ := strings.Cut(route, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ": ")
		switch {
		case !ok:
			r.Header.Set("Content-Type", h)
		case name == "Host":
			r.Host = value
		default:
			r.Header.Set(name, value)
		}
	}
	resp, err := server.Client().Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	a := response{status: resp.StatusCode, header: resp.Header, text: string(text)}
	if strings.Contains(resp.Header.Get("Content-Type"), "json") && json.Valid(text) && len(text) > 0 {
		require.NoError(t, json.Unmarshal(text, &a.body), route)
	}
	return a
}

// A valid traceparent reaches claims and releases, and any other value is ignored.
func TestTraceparent(t *testing.T) {
	const valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for header, want := range map[string]string{valid: valid, valid + "0": ""} {
		b := newTestBackend()
		server := startServer(t, b)
		a := request(t, server, "POST /v1/claims", `{"workload":"web","tenant":"zoe"}`, "Traceparent: "+header)
		require.Less(t, a.status, 300, a.text)
		id, ok := a.body["id"].(string)
		require.True(t, ok, a.text)
		a = request(t, server, "POST /v1/claims/"+id+"/release", "", "Traceparent: "+header)
		require.Less(t, a.status, 300, a.text)
		claimed, ok := b.Requests[0].(claim.Request)
		require.True(t, ok)
		require.Equal(t, want, claimed.Traceparent)
		released, ok := b.Requests[1].(release.Request)
		require.True(t, ok)
		require.Equal(t, want, released.Traceparent)
	}
}

// Every route answers as documented.
func TestRoutes(t *testing.T) {
	tests := []struct {
		route, body string
		status      int
		want        string // within the body
	}{
		{"GET /v1/workloads", "", 200, `"next":""`},
		{"GET /v1/workloads/web", "", 200, `"min_idle":2`},
		{"PUT /v1/workloads/web", file, 200, `"changed":false`},
		{"PUT /v1/workloads/web", `{"id":"web","image":"other"}`, 200, `"changed":true`},
		{"PUT /v1/workloads/new", "id: new\nimage: x\n", 201, `"created":true`},
		{"DELETE /v1/workloads/web", "", 202, `"deleting":true`},
		{"GET /v1/pools", "", 200, `"claimed":0`},
		{"GET /v1/pools/web", "", 200, `"idle":2`},
		{"POST /v1/pools/web/scale", `{"min_idle":0}`, 200, `"min_idle":0`},
		{"POST /v1/pools/web/drain", "", 200, `"draining"`},
		{"GET /v1/containers", "", 200, `box-2`},
		{"GET /v1/containers?state=destroyed", "", 200, `it was old`},
		{"GET /v1/containers?limit=1", "", 200, `"next":"box-1"`},
		{"GET /v1/containers?limit=1&after=box-1", "", 200, `"next":""`},
		{"GET /v1/containers/box-1", "", 200, `"ports":[]`},
		{"DELETE /v1/containers/box-1?force=true", "", 200, `destroying`},
		{"GET /v1/containers/box-1/logs?tail=4", "", 200, "box\n"},
		{"POST /v1/claims", `{"workload":"web","tenant":"carol","wait":"10s"}`, 201, `"hooks":[]`},
		{"POST /v1/claims", `{"workload":"web","tenant":"carol","wait":1500}`, 201, `"warnings":[]`},
		{"POST /v1/claims", `{"workload":"web","tenant":"alice"}`, 200, `claim-alice`},
		{"GET /v1/claims", "", 200, `claim-alice`},
		{"GET /v1/claims?state=released,failed", "", 200, `claim-bob`},
		{"GET /v1/claims/claim-bob", "", 200, `"timings":{}`},
		{"POST /v1/claims/claim-alice/release", "", 200, `"released"`},
		{"POST /v1/claims/claim-alice/release", `{"discard":true}`, 200, `"released"`},
		{"POST /v1/claims/claim-alice/sync", "", 200, `"snapshot":"snap-2"`},
		{"GET /v1/workloads/web/snapshots?tenant=alice", "", 200, `"id":"snap-2","current":true`},
		{"GET /v1/workloads/web/snapshots?tenant=alice", "", 200, `"files":3,"bytes":101,"stored_bytes":42,"new_bytes":30`},
		{"POST /v1/workloads/web/snapshots/snap-1/restore", `{"tenant":"alice"}`, 200, `"restored_from":"snap-1"`},
		{"GET /v1/hook-runs?limit=1", "", 200, `"next":"run-1"`},
		{"GET /v1/hook-runs?point=post_create", "", 200, `run-2`},
		{"GET /v1/hook-runs/run-1", "", 200, `boom`},
		{"GET /v1/events", "", 200, `"next":3`},
		{"GET /v1/events?after=1&limit=1", "", 200, `"next":2`},
		{"GET /v1/events?type=hook.failed&type=pool", "", 200, `hook init failed`},
		{"GET /v1/events?since=2026-01-02T03:04:08Z", "", 200, `[{"seq":3`},
		{"GET /v1/events?type=agent.*,custom,custom.x&untrusted=true&min_priority=5", "", 200, `"items":[]`},
		{"GET /v1/events?untrusted=false", "", 200, `"seq":3`},
		{"POST /v1/events", `{"claim":"claim-alice","type":"deploy.done","data":{"a":[1]},"priority":0}`, 200, `{"type":"custom.deploy.done","priority":0,`},
		{"POST /v1/events", `{"claim":"claim-alice","type":"agent.x"}`, 200, `"untrusted":true`},
		{"PUT /v1/claims/claim-alice/activity", `{"activity":"executing","tool":"grep"}`, 200, `"activity":"executing","tool":"grep"`},
		{"GET /v1/doctor", "", 200, `"ok":true`},
		{"GET /healthz", "", 200, `"ok"`},
		{"GET /readyz", "", 200, `"ok"`},
		{"GET /metrics", "", 200, "up 1\n"},
		{"GET /openapi.json", "", 200, `"3.1.0"`},
	}
	for _, test := range tests {
		t.Run(test.route, func(t *testing.T) {
			a := request(t, startServer(t, newTestBackend()), test.route, test.body)
			require.Equal(t, test.status, a.status, a.text)
			require.Contains(t, a.text, test.want)
			require.NotContains(t, a.text, ":null")
			require.NotEmpty(t, a.header.Get("X-Request-Id"))
			require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
		})
	}
	t.Run("the last container destroyed", func(t *testing.T) {
		a := request(t, startServer(t, apitest.New()), "DELETE /v1/workloads/web", "")
		require.Equal(t, 204, a.status)
		require.Empty(t, a.text)
	})
}

// All attempts of a run are on one page, because otherwise a reader would miss
// some.
func TestRunsAreNotSplitAcrossPages(t *testing.T) {
	a := request(t, startServer(t, newTestBackend()), "GET /v1/hook-runs?limit=2", "")
	require.Len(t, a.body["items"], 3)
	require.Equal(t, "run-1", a.body["next"])
}

// Every client error is a problem with a code and a description, never a 500
// and never plain text.
func TestBadRequests(t *testing.T) {
	server := startServer(t, newTestBackend())
	claims, yaml := "POST /v1/claims", "application/yaml"
	tests := []struct {
		name, route, body string
		headers           []string
		status            int
		code, detail      string
	}{
		{"unknown path", "GET /nothing", "", nil, 404, "not_found", "/nothing"},
		{"path below", "GET /v1/claims/x/y/z", "", nil, 404, "not_found", ""},
		{"unclean path", "GET //v1//claims", "", nil, 404, "not_found", ""},
		{"trailing slash", "GET /v1/claims/", "", nil, 404, "not_found", ""},
		{"event of ours", "POST /v1/events", `{"claim":"claim-alice","type":"claim.released"}`, nil, 422, "invalid_request", "publish custom.claim.released"},
		{"event in capitals", "POST /v1/events", `{"claim":"claim-alice","type":"Agent.x"}`, nil, 422, "invalid_request", "lower-case"},
		{"event of a lookalike", "POST /v1/events", `{"claim":"claim-alice","type":"сlaim.released"}`, nil, 422, "invalid_request", "lower-case"},
		{"event of no claim", "POST /v1/events", `{"claim":"x","type":"agent.x"}`, nil, 404, "claim_not_found", ""},
		{"event of a released claim", "POST /v1/events", `{"claim":"claim-bob","type":"agent.x"}`, nil, 409, "claim_not_active", ""},
		{"event with depth", "POST /v1/events", `{"claim":"claim-alice","type":"agent.x","depth":1}`, nil, 422, "invalid_request", "body.depth"},
		{"event of a run", "POST /v1/events", `{"claim":"claim-alice","type":"agent.x","Run":"x"}`, nil, 422, "invalid_request", "body.Run"},
		{"high priority", "POST /v1/events", `{"claim":"claim-alice","type":"agent.x","priority":10}`, nil, 422, "invalid_request", "priority"},
		{"names twice", "POST /v1/events", `{"claim":"claim-alice","type":"agent.x","data":{"a":1,"a":2}}`, nil, 422, "invalid_request", "twice"},
		{"deep data", "POST /v1/events", `{"claim":"claim-alice","type":"agent.x","data":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`, nil, 422, "invalid_request", "deep"},
		{"data without UTF-8", "POST /v1/events", "{\"claim\":\"claim-alice\",\"type\":\"agent.x\",\"data\":\"\xff\"}", nil, 422, "invalid_request", "UTF-8"},
		{"large data", "POST /v1/events", `{"claim":"claim-alice","type":"agent.x","data":"` + strings.Repeat("a", 32<<10) + `"}`, nil, 422, "invalid_request", "32768"},
		{"unknown activity", "PUT /v1/claims/claim-alice/activity", `{"activity":"sleeping"}`, nil, 422, "invalid_request", "activity"},
		{"odd tool", "PUT /v1/claims/claim-alice/activity", `{"activity":"idle","tool":"\u001b[2J"}`, nil, 422, "invalid_request", "tool"},
		{"activity of a released claim", "PUT /v1/claims/claim-bob/activity", `{"activity":"idle"}`, nil, 409, "claim_not_active", ""},
		{"priority of none", "GET /v1/events?min_priority=10", "", nil, 422, "invalid_request", "min_priority"},
		{"neither true nor false", "GET /v1/events?untrusted=maybe", "", nil, 422, "invalid_request", "untrusted"},
		{"type of none", "GET /v1/events?type=agents.x", "", nil, 422, "invalid_request", "agents.x"},
		{"wrong method", "DELETE /v1/claims", "", nil, 405, "method_not_allowed", "GET, HEAD, POST"},
		{"options", "OPTIONS /v1/claims", "", nil, 405, "method_not_allowed", ""},
		{"odd method", "BREW /v1/pools", "", nil, 405, "method_not_allowed", ""},
		{"no body", claims, "", nil, 400, "invalid_request", "body is required"},
		{"broken JSON", claims, `{"workload":`, nil, 400, "invalid_request", "unexpected end"},
		{"two documents", claims, `{} {}`, nil, 400, "invalid_request", ""},
		{"no object", claims, `[]`, nil, 422, "invalid_request", "object"},
		{"null", claims, `null`, nil, 422, "invalid_request", ""},
		{"unknown field", claims, `{"workload":"web","tenant":"a","x":1}`, nil, 422, "invalid_request", "body.x"},
		{"missing field", claims, `{"workload":"web"}`, nil, 422, "invalid_request", "tenant"},
		{"wrong type", claims, `{"workload":7,"tenant":"a"}`, nil, 422, "invalid_request", "body.workload"},
		{"bad duration", claims, `{"workload":"web","tenant":"a","wait":"soon"}`, nil, 422, "invalid_request", "soon"},
		{"half a millisecond", claims, `{"workload":"web","tenant":"a","wait":0.5}`, nil, 422, "invalid_request", ""},
		{"long wait", claims, `{"workload":"web","tenant":"a","wait":"6m"}`, nil, 422, "invalid_request", "5m"},
		{"endless wait", claims, `{"workload":"web","tenant":"a","wait":9223372036854775807}`, nil, 422, "invalid_request", ""},
		{"negative wait", claims, `{"workload":"web","tenant":"a","wait":-1}`, nil, 422, "invalid_request", ""},
		{"form", claims, "workload=web", []string{"application/x-www-form-urlencoded"}, 415, "unsupported_media_type", "send Content-Type: application/json"},
		{"text", claims, `{"workload":"web","tenant":"a"}`, []string{"text/plain"}, 415, "unsupported_media_type", ""},
		{"odd content type", claims, `{}`, []string{";+"}, 415, "unsupported_media_type", ""},
		{"huge", claims, `{"tenant":"` + strings.Repeat("x", 1<<20) + `"}`, nil, 413, "payload_too_large", "256 KiB"},
		{"deep", claims, strings.Repeat("[", 10_001), nil, 400, "invalid_request", ""},
		{"unknown workload", claims, `{"workload":"nope","tenant":"a"}`, nil, 404, "workload_not_found", ""},
		{"unknown claim", "GET /v1/claims/x", "", nil, 404, "claim_not_found", ""},
		{"release of nothing", "POST /v1/claims/x/release", "", nil, 404, "claim_not_found", ""},
		{"sync of nothing", "POST /v1/claims/x/sync", "", nil, 404, "claim_not_found", ""},
		{"sync of what has ended", "POST /v1/claims/claim-bob/sync", "", nil, 409, "claim_not_active", ""},
		{"whose snapshots", "GET /v1/workloads/web/snapshots", "", nil, 422, "invalid_request", "tenant"},
		{"snapshots of no workload", "GET /v1/workloads/nope/snapshots?tenant=a", "", nil, 404, "workload_not_found", ""},
		{"restore for whom", "POST /v1/workloads/web/snapshots/snap-1/restore", `{}`, nil, 422, "invalid_request", "tenant"},
		{"restore nothing", "POST /v1/workloads/web/snapshots/x/restore", `{"tenant":"alice"}`, nil, 404, "snapshot_not_found", ""},
		{"unknown container", "GET /v1/containers/x", "", nil, 404, "container_not_found", ""},
		{"logs of nothing", "GET /v1/containers/x/logs", "", nil, 404, "container_not_found", ""},
		{"unknown run", "GET /v1/hook-runs/x", "", nil, 404, "run_not_found", ""},
		{"unknown pool", "POST /v1/pools/x/drain", "", nil, 404, "workload_not_found", ""},
		{"claimed container", "DELETE /v1/containers/box-1", "", nil, 409, "container_in_use", ""},
		{"limit of none", "GET /v1/claims?limit=0", "", nil, 422, "invalid_request", "limit"},
		{"limit of words", "GET /v1/claims?limit=many", "", nil, 422, "invalid_request", "limit"},
		{"limit too large", "GET /v1/claims?limit=99999999999999999999", "", nil, 422, "invalid_request", "limit"},
		{"a parameter twice", "GET /v1/claims?tenant=a&tenant=b", "", nil, 400, "invalid_request", "query.tenant: is given more than once"},
		{"a limit twice", "GET /v1/events/stream?after=1&after=2", "", nil, 400, "invalid_request", "query.after"},
		{"a stream after the end", "GET /v1/events/stream?after=99", "", nil, 422, "invalid_request", "ends at 3"},
		{"a limit of a stream", "GET /v1/events/stream?limit=1", "", nil, 422, "invalid_request", "limit"},
		{"many parameters", "GET /v1/claims?" + strings.Repeat("&", 500), "", nil, 422, "invalid_request", "more than 500 parameters"},
		{"unknown parameter", "GET /v1/claims?wrokload=x", "", nil, 422, "invalid_request", "wrokload"},
		{"unknown state", "GET /v1/claims?state=happy", "", nil, 422, "invalid_request", "happy"},
		{"unknown point", "GET /v1/hook-runs?point=x", "", nil, 422, "invalid_request", "point"},
		{"unknown type", "GET /v1/events?type=hook.exploded", "", nil, 422, "invalid_request", "hook.exploded"},
		{"after in words", "GET /v1/events?after=x", "", nil, 422, "invalid_request", "after"},
		{"negative after", "GET /v1/events?after=-1", "", nil, 422, "invalid_request", "after"},
		{"after the end", "GET /v1/events?after=99", "", nil, 422, "invalid_request", "ends at 3"},
		{"resume after the end", "GET /v1/events", "", []string{"Accept: text/event-stream", "Last-Event-ID: 99"}, 422, "invalid_request", "Last-Event-ID"},
		{"since when", "GET /v1/events?since=yesterday", "", nil, 422, "invalid_request", "since"},
		{"broken escape", "GET /v1/claims?tenant=%zz", "", nil, 400, "invalid_request", ""},
		{"NUL", "GET /v1/claims?tenant=%00", "", nil, 400, "invalid_request", ""},
		{"NUL in the path", "GET /v1/claims/a%00b", "", nil, 400, "invalid_request", ""},
		{"no UTF-8", "GET /v1/containers/%ff", "", nil, 400, "invalid_request", ""},
		{"scale nothing", "POST /v1/pools/web/scale", `{}`, nil, 422, "invalid_request", "min_idle"},
		{"scale below", "POST /v1/pools/web/scale", `{"max_size":0}`, nil, 422, "invalid_request", "max_size"},
		{"empty file", "PUT /v1/workloads/web", "", nil, 400, "invalid_request", ""},
		{"bad file", "PUT /v1/workloads/web", "id: web\nimag: x\n", []string{yaml}, 422, "invalid_workload", "imag"},
		{"other id", "PUT /v1/workloads/other", file, []string{yaml}, 422, "invalid_workload", "path"},
		{"file in a form", "PUT /v1/workloads/web", file, []string{"multipart/form-data"}, 415, "unsupported_media_type", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := request(t, server, test.route, test.body, test.headers...)
			require.Equal(t, test.status, a.status, a.text)
			require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
			require.Equal(t, test.code, a.body["code"], a.text)
			require.Contains(t, a.body["detail"], test.detail)
			require.Equal(t, a.header.Get("X-Request-Id"), a.body["instance"])
			require.EqualValues(t, test.status, a.body["status"])
			if test.status == 405 {
				require.NotEmpty(t, a.header.Get("Allow"))
			}
		})
	}
}

// Each error of the services has its code and its fields.
func TestErrorCodes(t *testing.T) {
	code := 3
	hook := &hooks.Error{Run: hooks.Run{ID: "run-9", Hook: "init", Point: hooks.PostClaim, Detail: hooks.Detail{ExitCode: &code}, Stderr: runtime.Output{Head: "no disk"}}}
	failed := func(step string, err error) error {
		return &claim.FailedError{Claim: claim.Claim{ID: "claim-9"}, Step: step, Err: err}
	}
	away := errors.New("storage is away")
	tests := []struct {
		err    error
		status int
		code   string
		want   map[string]any
		retry  string
	}{
		{&claim.UnavailableError{Reason: claim.Exhausted, RetryAfter: 2500 * time.Millisecond}, 429, "pool_exhausted", map[string]any{"reason": "exhausted"}, "3"},
		{&claim.UnavailableError{Reason: claim.NotReady}, 503, "pool_not_ready", map[string]any{"reason": "not_ready"}, "1"},
		{&claim.UnavailableError{Reason: claim.FillFailing}, 503, "pool_not_ready", map[string]any{"reason": "fill_failing"}, "1"},
		{&claim.UnavailableError{Reason: claim.Draining}, 503, "pool_not_ready", map[string]any{"reason": "draining"}, "1"},
		{&claim.UnavailableError{Reason: claim.Deleting}, 503, "pool_not_ready", map[string]any{"reason": "deleting"}, "1"},
		{failed("post_claim", hook), 502, "hook_failed", map[string]any{"claim": "claim-9", "step": "post_claim"}, ""},
		{failed("healthy", pool.ErrUnhealthy), 502, "unhealthy", nil, ""},
		{failed("restart", &runtime.StartError{Reason: runtime.StartBinaryNotFound}), 502, "start_failed", nil, ""},
		{failed("reserve", runtime.ErrUnavailable), 503, "engine_unavailable", nil, "1"},
		{failed("seed", pool.ErrSeed), 502, "sync_failed", nil, ""},
		{failed("reserve", claim.ErrAborted), 409, "claim_aborted", nil, ""},
		{failed("reserve", fmt.Errorf("connect to secret@db: %w", away)), 503, "storage_unavailable", map[string]any{"claim": "claim-9", "detail": "storage is away"}, "1"},
		{&claim.SyncError{Direction: "upload", Err: away}, 503, "storage_unavailable", nil, "1"},
		{fmt.Errorf("%w: no answer: %w", away, context.DeadlineExceeded), 503, "storage_unavailable", nil, "1"},
		{runtime.ErrImageUnavailable, 502, "image_unavailable", nil, ""},
		{pool.ErrConflict, 409, "conflict", nil, ""},
		{claim.ErrInvalidTenant, 422, "invalid_request", nil, ""},
		{nil, 201, "", nil, ""},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), 504, "timeout", nil, ""},
		{errors.New("secret path /etc/x"), 500, "internal", nil, ""},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.err), func(t *testing.T) {
			b := newTestBackend()
			server := startServer(t, b, func(o *api.Options) { o.StorageUnavailable = []error{away} })
			b.Fail("claim", test.err)
			a := request(t, server, "POST /v1/claims", `{"workload":"web","tenant":"dora"}`)
			require.Equal(t, test.status, a.status, a.text)
			if test.code == "" {
				return
			}
			require.Equal(t, test.code, a.body["code"], a.text)
			require.Equal(t, test.retry, a.header.Get("Retry-After"))
			for k, v := range test.want {
				require.Equal(t, v, a.body[k], k)
			}
			if test.code == "hook_failed" {
				require.Equal(t, "run-9", a.body["run"].(map[string]any)["id"])
				require.Contains(t, a.body["detail"], "no disk")
			}
			require.NotContains(t, a.text, "secret")
		})
	}
}
