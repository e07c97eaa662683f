package api_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
)

// serve passes one request to a new API without a network.
func serve(handler http.Handler, r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	handler.ServeHTTP(rec, r)
	return rec
}

// FuzzBody: no body makes the server fail.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"workload":"web","tenant":"a","wait":"1s"}`, `{"wait":1e999}`, `[]`, `null`, "\x00", `{"tenant":"\u0000"}`, "id: web\nimage: x\n",
	} {
		f.Add(seed, "application/json")
		f.Add(seed, "")
		f.Add(seed, "text/yaml")
	}
	handler := api.New(newTestBackend().Options())
	f.Fuzz(func(t *testing.T, body, contentType string) {
		for _, route := range []string{"POST /v1/claims", "POST /v1/claims/x/release", "POST /v1/pools/web/scale", "PUT /v1/workloads/web"} {
			method, path, _ := strings.Cut(route, " ")
			r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, strings.NewReader(body))
			r.Header.Set("Content-Type", contentType)
			require.Less(t, serve(handler, r).Code, 500, route)
		}
	})
}

// FuzzQuery: no query and no path makes the server fail. The server is
// stopping, so that streams end when they have sent the existing events.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"limit=1&after=2", "limit=-1", "state=a,b&state=c", "after=9223372036854775808", "since=1h", "type=hook,,pool", "%", "a=%ff", "point=post_claim", "tenant=\x00", "follow=true", "%66ollow=true&after=1",
	} {
		f.Add(seed, "id")
	}
	handler := api.New(newTestBackend().Options())
	handler.Close()
	f.Fuzz(func(t *testing.T, query, id string) {
		for _, path := range []string{"/v1/claims", "/v1/containers", "/v1/hook-runs", "/v1/events", "/v1/pools", "/v1/claims/" + id} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", nil)
			r.URL = &url.URL{Scheme: "http", Host: "localhost", Path: path, RawQuery: query}
			require.Less(t, serve(handler, r).Code, 500, path)
		}
	})
}
