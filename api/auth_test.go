package api_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/auth"
)

const (
	key1 = "0123456789abcdef"
	key2 = "fedcba9876543210-second"
)

// testKeys are keys of operators.
func testKeys() *principals {
	operator := []auth.Grant{{Role: auth.Operator}}
	return &principals{known: map[string]*auth.Principal{
		key1: {Actor: "key:ops", Name: "ops", Grants: operator}, key2: {Actor: "key:line-4", Name: "line-4", Grants: operator},
	}}
}

// With keys, only the probes are available without one, from anywhere.
func TestAPIKeys(t *testing.T) {
	k := testKeys()
	var log bytes.Buffer
	server := startServer(t, newTestBackend(), func(o *api.Options) {
		o.Auth = k
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	tests := []struct {
		name, route, header string
		status              int
	}{
		{"none", "GET /v1/claims", "", 401},
		{"empty", "GET /v1/claims", "Authorization: Bearer ", 401},
		{"wrong", "GET /v1/claims", "Authorization: Bearer 0123456789abcdeg", 401},
		{"part", "GET /v1/claims", "Authorization: Bearer 0123456789abcde", 401},
		{"with its name", "GET /v1/claims", "Authorization: Bearer ops:" + key1, 401},
		{"basic", "GET /v1/claims", "Authorization: Basic " + key1, 401},
		{"first", "GET /v1/claims", "Authorization: Bearer " + key1, 200},
		{"second", "GET /v1/claims", "Authorization: bearer " + key2, 200},
		{"header", "GET /v1/claims", "X-API-Key: " + key1, 200},
		{"metrics", "GET /metrics", "", 401},
		{"document", "GET /openapi.json", "", 401},
		{"unknown path", "GET /v2", "", 401},
		{"live", "GET /healthz", "", 200},
		{"ready", "GET /readyz", "", 200},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			headers := []string{"Host: hostler.example.com"}
			if test.header != "" {
				headers = append(headers, test.header)
			}
			a := request(t, server, test.route, "", headers...)
			require.Equal(t, test.status, a.status, a.text)
			if test.status == 401 {
				require.Equal(t, "unauthorized", a.body["code"])
				require.Contains(t, a.header.Get("WWW-Authenticate"), "Bearer")
			}
		})
	}
	require.Contains(t, log.String(), "key=ops")
	require.NotContains(t, log.String(), key1)
	require.NotContains(t, log.String(), key2)
}

// Without keys a web page has access neither by DNS rebinding nor by a
// cross-origin request.
func TestServerWithoutKeys(t *testing.T) {
	server := startServer(t, newTestBackend())
	host := server.Addr()
	claim := `{"workload":"web","tenant":"eve"}`
	tests := []struct {
		name, route, body string
		headers           []string
		status            int
	}{
		{"localhost", "GET /v1/claims", "", []string{"Host: localhost:8700"}, 200},
		{"127.9.9.9", "GET /v1/claims", "", []string{"Host: 127.9.9.9"}, 200},
		{"IPv6", "GET /v1/claims", "", []string{"Host: [::1]:8700"}, 200},
		{"IPv6 without port", "GET /v1/claims", "", []string{"Host: [::1]"}, 200},
		{"rebound name", "GET /v1/claims", "", []string{"Host: evil.example:8700"}, 403},
		{"name like ours", "GET /v1/claims", "", []string{"Host: localhost.evil.example"}, 403},
		{"other address", "GET /v1/claims", "", []string{"Host: 10.0.0.1"}, 403},
		{"probe too", "GET /healthz", "", []string{"Host: evil.example"}, 403},
		{"other origin", "POST /v1/claims", claim, []string{"Origin: https://evil.example"}, 403},
		{"other site", "POST /v1/claims", claim, []string{"Sec-Fetch-Site: cross-site"}, 403},
		{"other port", "POST /v1/claims", claim, []string{"Origin: http://127.0.0.1:1"}, 403},
		{"no origin", "POST /v1/claims", claim, []string{"Origin: null"}, 403},
		{"deletion", "DELETE /v1/containers/box-2", "", []string{"Sec-Fetch-Site: cross-site"}, 403},
		{"own page", "POST /v1/claims", claim, []string{"Origin: http://" + host}, 201},
		{"own page again", "POST /v1/claims", claim, []string{"Sec-Fetch-Site: same-origin"}, 200},
		{"no browser", "POST /v1/claims", claim, nil, 200},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := request(t, server, test.route, test.body, test.headers...)
			require.Equal(t, test.status, a.status, a.text)
			if test.status == 403 {
				require.Equal(t, "forbidden", a.body["code"])
			}
		})
	}
}

// A client's request id is accepted when it is harmless, and is in the log.
func TestRequestID(t *testing.T) {
	var log bytes.Buffer
	server := startServer(t, newTestBackend(), func(o *api.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	require.Equal(t, "abc-1", request(t, server, "GET /nothing", "", "X-Request-Id: abc-1").header.Get("X-Request-Id"))
	require.Contains(t, log.String(), "request=abc-1")
	for _, bad := range []string{"a b", "x\"y", strings.Repeat("x", 65)} {
		require.NotEqual(t, bad, request(t, server, "GET /nothing", "", "X-Request-Id: "+bad).header.Get("X-Request-Id"))
	}
}

// A panic is a 500 with an id, and the server continues.
func TestPanicInHandler(t *testing.T) {
	var log bytes.Buffer
	server := startServer(t, newTestBackend(), func(o *api.Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		o.Metrics = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("secret state") })
	})
	a := request(t, server, "GET /metrics", "")
	require.Equal(t, 500, a.status)
	require.Equal(t, "internal", a.body["code"])
	require.NotContains(t, a.text, "secret")
	require.Contains(t, log.String(), "secret state")
	require.Equal(t, 200, request(t, server, "GET /healthz", "").status)
}

// A panic in the middle of a response aborts it, because a part must not look
// complete.
func TestPanicMidResponse(t *testing.T) {
	server := startServer(t, newTestBackend(), func(o *api.Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, strings.Repeat("x", 10_000))
			panic("late")
		})
	})
	resp, err := server.Client().Get(server.URL + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	require.Error(t, err)
}

// A client without a credential chooses little of a line of the log.
func TestLogOfLongRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		server := startServer(t, newTestBackend(), func(o *api.Options) {
			o.Auth, o.Log = newTestAuth(), slog.New(slog.NewTextHandler(&log, nil))
		})
		long := strings.Repeat("é", 8<<10)
		require.Equal(t, 401, request(t, server, "GET /v1/"+long, "").status)
		require.Equal(t, 401, request(t, server, strings.Repeat("M", 16<<10)+" /v1/claims", "").status)
		synctest.Wait() // a request is logged after its response
		require.Equal(t, 2, strings.Count(log.String(), "status=401"))
		require.Less(t, len(log.String()), 4<<10)
	})
}
