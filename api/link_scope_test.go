package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/claim"
)

// A link grants the use of its port, and neither a route of the API nor a port of
// another claim. A key opens the ports of its own claims only, and others look like
// claims that do not exist.
func TestLinkGrantsOnlyItsPort(t *testing.T) {
	b := newTestBackend()
	port := program(t, b, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "program") })
	b.Claims[1].State, b.Claims[1].Container = claim.Active, "box-2"
	server := startServer(t, b, withDomain(t, "ports.example.com"), func(o *api.Options) { o.Auth = newTestAuth() })
	a := request(t, server, "POST "+portURL(port)+"/links", `{}`, "X-API-Key: tenant")
	require.Equal(t, 200, a.status, a.text)
	u, err := url.Parse(a.body["url"].(string))
	require.NoError(t, err)
	cookie := "Cookie: __Host-hostler_link=" + u.Query().Get("hostler_link")
	hostOf := func(id string) string { return fmt.Sprintf("Host: %d-%s.ports.example.com", port, id) }
	for _, c := range []struct {
		name, path string
		status     int
		headers    []string
	}{
		{"its port", "/", 200, []string{hostOf("claim-alice"), cookie}},
		{"another claim's port", "/", 401, []string{hostOf("claim-bob"), cookie}},
		{"a route", "/v1/claims/claim-alice", 401, []string{cookie}},
		{"a route, as a parameter", "/v1/claims?" + u.RawQuery, 401, nil},
		{"the port below the API", portURL(port) + "/?" + u.RawQuery, 401, []string{cookie}},
		{"key, its own", "/", 200, []string{hostOf("claim-alice"), "Authorization: Bearer tenant"}},
		{"key, another's", "/", 404, []string{hostOf("claim-bob"), "Authorization: Bearer tenant"}},
		{"key, no claim", "/", 404, []string{hostOf("claim-bot"), "Authorization: Bearer tenant"}},
		{"key of a viewer", "/", 403, []string{hostOf("claim-alice"), "Authorization: Bearer viewer"}},
		{"key of an operator", "/", 200, []string{hostOf("claim-bob"), "Authorization: Bearer operator"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, text := raw(t, server, "GET", c.path, nil, c.headers...)
			require.Equal(t, c.status, resp.StatusCode, text)
			require.Equal(t, c.status == 200, text == "program", text)
		})
	}
}

// A credential for exactly one tenant need not name it. One for several, or for all,
// does, and the error names the field.
func TestTenantOfClaimIsTheCredentials(t *testing.T) {
	a, b := newTestAuth(), newTestBackend()
	server := startServer(t, b, func(o *api.Options) { o.Auth = a })
	put := request(t, server, "PUT /v1/workloads/web", file, "application/yaml", "X-API-Key: operator")
	require.Equal(t, 201, put.status, put.text)
	for _, c := range []struct {
		key, body string
		status    int
		text      string
	}{
		{"tenant", `{"workload":"web"}`, 200, `"tenant":"alice"`},
		{"tenant", `{"workload":"web","tenant":"alice"}`, 200, `"tenant":"alice"`},
		{"tenant", `{"workload":"web","tenant":"Alice"}`, 403, "forbidden"},
		{"tenant", `{"workload":"none"}`, 404, "workload_not_found"},
		{"operator", `{"workload":"web"}`, 422, "body.tenant"},
		{"operator", `{"workload":"web","tenant":""}`, 422, "body.tenant"},
		{"author", `{"workload":"web","tenant":"alice"}`, 403, "forbidden"},
	} {
		got := request(t, server, "POST /v1/claims", c.body, "X-API-Key: "+c.key)
		require.Equal(t, c.status, got.status, "%s %s: %s", c.key, c.body, got.text)
		require.Contains(t, got.text, c.text)
	}
}

// A viewer that is limited to tenants or workloads sees nothing of others, and nothing
// of the server as a whole.
func TestLimitedViewer(t *testing.T) {
	for name, g := range map[string]auth.Grant{
		"tenant":   {Role: auth.Viewer, Tenants: []activity.Pattern{activity.Exactly("alice")}},
		"workload": {Role: auth.Viewer, Workloads: []activity.Pattern{activity.Exactly("web")}},
	} {
		a, b := newTestAuth(), apitest.New()
		a.principals["viewer"].Grants = []auth.Grant{g}
		server := startServer(t, b, func(o *api.Options) { o.Auth = a })
		seedAccess(b)
		others := map[string]string{"tenant": foreign, "workload": elseID}[name]
		for _, list := range []string{"claims", "containers", "hook-runs", "waits", "deliveries", "events"} {
			text := request(t, server, "GET /v1/"+list, "", "X-API-Key: viewer").text
			require.Contains(t, text, own, "%s %s", name, list)
			require.NotContains(t, text, others, "%s %s", name, list)
		}
		for route, status := range map[string]int{
			"doctor": 403, "workloads/else": 403, "pools/else": 403, "claims/claim-" + others: 404, "containers/box-" + others: 404,
			"hook-runs/run-" + others: 404, "deliveries/delivery-" + others: 404, "claims/claim-" + own: 200, "containers/box-" + own: 200,
		} {
			require.Equal(t, status, request(t, server, "GET /v1/"+route, "", "X-API-Key: viewer").status, "%s %s", name, route)
		}
	}
}

// A token that is limited to a claim acts on that one: another of its tenant, a new
// one and a snapshot are refused.
func TestGrantOfOneClaim(t *testing.T) {
	a, b := newTestAuth(), newTestBackend()
	b.Claims = append(b.Claims, claim.Claim{ID: "claim-alic2", Workload: "web", Tenant: "alice", State: claim.Active})
	a.principals["tenant"].Grants[0].Claim = "claim-alice"
	server := startServer(t, b, func(o *api.Options) { o.Auth = a })
	for route, status := range map[string]int{
		"GET /v1/claims/claim-alice": 200, "GET /v1/claims/claim-alic2": 404, "POST /v1/claims": 403,
		"GET /v1/workloads/web/snapshots?tenant=alice": 403,
	} {
		body := ""
		if route == "POST /v1/claims" {
			body = `{"workload":"web","tenant":"alice"}`
		}
		require.Equal(t, status, request(t, server, route, body, "X-API-Key: tenant").status, route)
	}
	text := request(t, server, "GET /v1/claims", "", "X-API-Key: tenant").text
	require.Contains(t, text, "claim-alice")
	require.NotContains(t, text, "claim-alic2")
}
