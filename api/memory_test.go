package api_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
)

const memoryURL = "/v1/claims/claim-alice/memory"

// A key is the rest of the path, with slashes or %2F, and is the same in the list.
func TestMemoryKeysInPaths(t *testing.T) {
	server := startServer(t, newTestBackend())
	for _, key := range []string{
		"plan", "a/b/c", "%2F", "50%", "a b", "hook:7:execution", "日本/é", "...", "a;b", "a?b#c", "+", "memory/x", strings.Repeat("日", 200),
	} {
		escaped := memoryURL + "/" + url.PathEscape(key)
		a := request(t, server, "PUT "+escaped, `{"a": 1}`)
		require.Equal(t, 201, a.status, a.text)
		require.Equal(t, key, a.body["key"])
		require.Equal(t, 200, request(t, server, "GET "+escaped, "").status, key)
		segments := strings.Split(key, "/")
		for i := range segments {
			segments[i] = url.PathEscape(segments[i])
		}
		require.Equal(t, 200, request(t, server, "GET "+memoryURL+"/"+strings.Join(segments, "/"), "").status, key)
		a = request(t, server, "GET "+memoryURL+"?limit=1000&prefix="+url.QueryEscape(key), "")
		require.Contains(t, fmt.Sprint(a.body["items"]), "key:"+key+" ")
		a = request(t, server, "DELETE "+escaped, "")
		require.Equal(t, true, a.body["deleted"], key)
		require.Equal(t, false, request(t, server, "DELETE "+escaped, "").body["deleted"])
		require.Equal(t, 404, request(t, server, "GET "+escaped, "").status)
	}
	for path, status := range map[string]int{
		"": 404, "/": 404, "%2F": 404, "a//b": 404, "a%2F%2Fb": 404, "..": 404, "%2E%2E": 404, "a/%2e%2e/b": 404, "a/": 404, "%00": 400, "a%0Ab": 400, "%ff": 400, "a%7F": 400,
		strings.Repeat("a", 201): 422, strings.Repeat("%C3%A9", 201): 422,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL, strings.NewReader("1"))
		require.NoError(t, err)
		r.URL.Opaque = memoryURL + "/" + path // as it is
		resp, err := server.Client().Transport.RoundTrip(r)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, status, resp.StatusCode, path)
	}
}

// Conditions are those of HTTP: ETags, or the version as a parameter.
func TestMemoryConditions(t *testing.T) {
	server := startServer(t, newTestBackend())
	path := memoryURL + "/plan"
	put := func(status int, value string, headers ...string) response {
		t.Helper()
		a := request(t, server, "PUT "+path, value, headers...)
		require.Equal(t, status, a.status, a.text)
		return a
	}
	conflict := func(a response, version float64) {
		t.Helper()
		require.Equal(t, 412, a.status, a.text)
		require.Equal(t, "version_conflict", a.body["code"])
		require.Equal(t, version, a.body["current_version"])
	}
	conflict(put(412, "1", "If-Match: *"), 0)
	conflict(put(412, "1", `If-Match: "7"`), 0)
	a := put(201, "[ 1 ]", "If-None-Match: *")
	require.Equal(t, `"1"`, a.header.Get("ETag"))
	require.Equal(t, map[string]any{"key": "plan", "level": "claim", "version": 1.0, "bytes": 3.0, "updated_at": "2026-01-02T03:04:05Z"}, a.body)
	conflict(put(412, "2", "If-None-Match: *"), 1)
	a = put(200, "2", `If-Match: "1"`)
	require.Equal(t, `"2"`, a.header.Get("ETag"))
	put(200, "3", `If-Match: W/"2"`)
	put(200, `{"a": 4}`, `If-Match: *`)
	conflict(put(412, "5", `If-Match: "3"`), 4)
	for _, header := range []string{
		`If-Match: "1", "4"`, "If-Match: x", `If-Match: ""`, `If-Match: "04"`, `If-Match: 4`, `If-Match: "-1"`, `If-Match: "99999999999999999999"`, `If-None-Match: "4"`,
	} {
		put(422, "5", header)
	}
	put(422, "5", `If-Match: "4"`, "If-None-Match: *")

	get := request(t, server, "GET "+path, "")
	require.Equal(t, `{"a":4}`, get.text)
	require.Equal(t, "application/json", get.header.Get("Content-Type"))
	require.Equal(t, `"4"`, get.header.Get("ETag"))
	require.Equal(t, "Fri, 02 Jan 2026 03:04:05 GMT", get.header.Get("Last-Modified"))
	get = request(t, server, "GET "+path, "", `If-None-Match: "4"`)
	require.Equal(t, 304, get.status)
	require.Empty(t, get.text)
	require.Equal(t, 200, request(t, server, "GET "+path, "", `If-None-Match: "3"`).status)

	path += "?if_version=4"
	put(422, "5", `If-Match: "4"`)
	put(200, "5")
	conflict(request(t, server, "DELETE "+path, ""), 5)
	require.Equal(t, 422, request(t, server, "DELETE "+memoryURL+"/plan?if_version=-1", "").status)
	require.Equal(t, 200, request(t, server, "DELETE "+memoryURL+"/plan", "", `If-Match: "5"`).status)
	conflict(request(t, server, "DELETE "+memoryURL+"/plan", "", `If-Match: *`), 0)
	require.Equal(t, 201, request(t, server, "PUT "+memoryURL+"/plan?if_version=0", "1").status)
}

// Every refusal has its code, and none quotes the value.
func TestMemoryRefusals(t *testing.T) {
	b := newTestBackend()
	server := startServer(t, b)
	const secret = "swordfish"
	for route, code := range map[string]string{
		"PUT /v1/claims/claim-bob/memory/k":      "claim_not_active",
		"PUT /v1/claims/no-claim/memory/k":       "claim_not_found",
		"PUT " + memoryURL + "/k?level=workload": "memory_not_shared",
		"PUT " + memoryURL + "/k?level=project":  "memory_not_shared",
		"PUT " + memoryURL + "/k?level=pool":     "invalid_request",
		"PUT " + memoryURL + "/k?if_version=x":   "invalid_request",
		"PUT " + memoryURL + "/k?version=1":      "invalid_request",
		"GET " + memoryURL + "/k":                "memory_not_found",
		"GET " + memoryURL + "?level=workload":   "memory_not_shared",
		"GET " + memoryURL + "?limit=1001":       "invalid_request",
		"GET /v1/claims/no-claim/memory":         "claim_not_found",
		"POST " + memoryURL + "/k":               "method_not_allowed",
		"DELETE " + memoryURL:                    "method_not_allowed",
	} {
		body := ""
		if strings.HasPrefix(route, "PUT") {
			body = `{"a": "` + secret + `"}`
		}
		a := request(t, server, route, body)
		require.Equal(t, code, a.body["code"], "%s: %s", route, a.text)
		require.NotContains(t, a.text, secret)
	}
	for body, code := range map[string]string{
		secret:                      "invalid_request",
		`{"` + secret + `": NaN}`:   "invalid_request",
		"\"" + secret + "\xff\"":    "invalid_request",
		"":                          "invalid_request",
		strings.Repeat(" ", 65<<10): "payload_too_large",
		strings.Repeat("x", 2<<20):  "payload_too_large",
		strings.Repeat("[", 60<<10): "invalid_request",
	} {
		a := request(t, server, "PUT "+memoryURL+"/k", body, "application/json")
		require.Equal(t, code, a.body["code"], a.text)
		require.NotContains(t, a.text, secret)
	}
	require.Equal(t, 415, request(t, server, "PUT "+memoryURL+"/k", "1", "application/x-www-form-urlencoded").status)

	limited := 0
	for range 100 {
		if a := request(t, server, "PUT "+memoryURL+"/k", "1"); a.status == 429 {
			require.Equal(t, "rate_limited", a.body["code"])
			require.Equal(t, "1", a.header.Get("Retry-After"))
			limited++
		}
	}
	require.Positive(t, limited)
}

// The access log has neither a key nor a value.
func TestMemoryIsNotLogged(t *testing.T) {
	var log bytes.Buffer
	server := startServer(t, newTestBackend(), func(o *api.Options) {
		o.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	for _, route := range []string{"PUT %s/password/1", "GET %s/password/1", "GET %s?prefix=password", "DELETE %s/password/1", "POST %s/password", "PUT %s/password%%00"} {
		request(t, server, fmt.Sprintf(route, memoryURL), `{"value": "swordfish"}`)
	}
	require.Contains(t, log.String(), `"path":"`+memoryURL+`/-"`)
	require.NotContains(t, log.String(), "password")
	require.NotContains(t, log.String(), "swordfish")
}
