package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/quota"
)

// quotaKeys accepts the names of quotaKeys as keys.
type quotaKeys map[string]*auth.Principal

func (quotaKeys) IsOpen() bool { return false }

func (p quotaKeys) Authenticate(_ context.Context, r auth.Request) (*auth.Principal, error) {
	if found := p[r.Bearer]; found != nil {
		return found, nil
	}
	return nil, auth.ErrInvalidCredential
}

func (p quotaKeys) IsCredential(_ context.Context, text string) bool { return p[text] != nil }

func (quotaKeys) Follow(*auth.Principal, func(error)) func() { return func() {} }

func principal(name string, grants ...auth.Grant) *auth.Principal {
	return &auth.Principal{Actor: "key:" + name, Name: name, Grants: grants}
}

// quotaPrincipals are an operator, a viewer, and keys of two tenants.
func newQuotaKeys() quotaKeys {
	of := func(tenant string) auth.Grant {
		return auth.Grant{Role: auth.Tenant, Tenants: []activity.Pattern{activity.Exactly(tenant)}}
	}
	return quotaKeys{
		"operator": principal("operator", auth.Grant{Role: auth.Operator}), "viewer": principal("viewer", auth.Grant{Role: auth.Viewer}),
		"alice": principal("alice", of("alice")), "bob": principal("bob", of("bob")),
		"author": principal("author", auth.Grant{Role: auth.Author, Workloads: []activity.Pattern{activity.Anything}}),
	}
}

func by(name string) string { return "Authorization: Bearer " + name }

// Operators set quotas, viewers read all, and a tenant reads its own and its key's.
func TestQuotas(t *testing.T) {
	b := newTestBackend()
	server := startServer(t, b, func(o *api.Options) { o.Auth = newQuotaKeys() })
	a := request(t, server, "PUT /v1/quotas/tenant/alice", `{"claims": 3, "state_bytes": -1}`, by("operator"))
	require.Equal(t, 200, a.status, a.text)
	require.Equal(t, map[string]any{"claims": 3.0, "state_bytes": -1.0}, a.body["override"])
	require.Equal(t, 200, request(t, server, "PUT /v1/quotas/key/ci", `{"requests_per_second": 5}`, by("operator")).status)
	require.Equal(t, 200, request(t, server, "PUT /v1/quotas/key/oidc:https:%2F%2Fissuer%2F%2Fa%23sub", `{"claims": 1}`, by("operator")).status)
	require.Equal(t, 200, request(t, server, "PUT /v1/quotas/workload/web", `{"claims": 4}`, by("operator")).status)

	a = request(t, server, "GET /v1/quotas?limit=3", "", by("viewer"))
	require.Equal(t, 200, a.status, a.text)
	require.Equal(t, "tenant/alice", a.body["next"])
	first := a.body["items"].([]any)[1].(map[string]any)
	require.Equal(t, []any{"key", "oidc:https://issuer//a#sub"}, []any{first["level"], first["name"]})
	a = request(t, server, "GET /v1/quotas?after=tenant/alice", "", by("viewer"))
	require.Len(t, a.body["items"], 1)

	for _, row := range []struct {
		who, route string
		want       int
	}{
		{"alice", "GET /v1/quotas/tenant/alice", 200},
		{"alice", "GET /v1/quotas/key/alice", 200},
		{"alice", "GET /v1/quotas/tenant/bob", 403},
		{"alice", "GET /v1/quotas/key/ci", 403},
		{"alice", "GET /v1/quotas/workload/web", 403},
		{"alice", "GET /v1/quotas", 403},
		{"alice", "PUT /v1/quotas/tenant/alice", 403},
		{"alice", "DELETE /v1/quotas/tenant/alice", 403},
		{"viewer", "GET /v1/quotas/tenant/bob", 200},
		{"viewer", "GET /v1/quotas/workload/web", 200},
		{"viewer", "PUT /v1/quotas/tenant/alice", 403},
		{"author", "GET /v1/quotas/tenant/alice", 403},
		{"operator", "GET /v1/quotas/team/a", 422},
		{"operator", "GET /v1/quotas/tenant//", 404},
		{"operator", "GET /v1/quotas/tenant/..", 404},
		{"operator", "DELETE /v1/quotas/tenant/bob", 404},
		{"operator", "DELETE /v1/quotas/tenant/alice", 200},
		{"operator", "DELETE /v1/quotas/tenant/alice", 404},
	} {
		body := ""
		if strings.HasPrefix(row.route, "PUT") {
			body = `{"claims": 9}`
		}
		a := request(t, server, row.route, body, by(row.who))
		require.Equal(t, row.want, a.status, "%s: %s: %s", row.who, row.route, a.text)
	}
	for body, message := range map[string]string{
		`{"claims": -2}`: "claims", `{"claims": 1.5}`: "claims", `{"claim": 1}`: "claim", `{"requests_per_second": 1}`: "no limit of requests",
	} {
		a := request(t, server, "PUT /v1/quotas/workload/web", body, by("operator"))
		require.Equal(t, 422, a.status, a.text)
		require.Contains(t, a.text, message)
	}
}

// A claim beyond a quota is refused with the quota and when to try again, and counts
// for who claims.
func TestClaimBeyondQuota(t *testing.T) {
	b := newTestBackend()
	server := startServer(t, b, func(o *api.Options) { o.Auth = newQuotaKeys() })
	request(t, server, "POST /v1/claims", `{"workload": "web", "tenant": "zoe"}`, by("operator")) // the backend records it
	require.Equal(t, "key:operator", b.Requests[len(b.Requests)-1].(claim.Request).Actor)
	b.Fail("claim", fmt.Errorf("not recorded: %w", &quota.ExceededError{
		Scope: quota.Scope{Level: quota.Tenant, Name: "alice"}, Kind: quota.Claims, Limit: 10, Current: 12, RetryAfter: 4500 * time.Millisecond,
	}))
	a := request(t, server, "POST /v1/claims", `{"workload": "web", "tenant": "alice"}`, by("operator"))
	require.Equal(t, 429, a.status, a.text)
	require.Equal(t, []any{"quota_exceeded", "tenant alice: live claims", 10.0, 12.0},
		[]any{a.body["code"], a.body["quota"], a.body["limit"], a.body["current"]})
	require.Equal(t, "5", a.header.Get("Retry-After"))
}

// Requests beyond a quota are refused on every route but probes: by key and tenant,
// also at ports and through links, before anything is looked up.
func TestRequestsBeyondQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := func(n int64) quota.Limits { return quota.Limits{RequestsPerSecond: &n} }
		b := newTestBackend()
		port := program(t, b, func(http.ResponseWriter, *http.Request) {})
		who := newQuotaKeys()
		who["alice2"] = principal("alice2", who["alice"].Grants...)
		server := startServer(t, b, withDomain(t, "ports.example.com"), func(o *api.Options) {
			o.Auth, o.Quotas = who, apitest.NewQuotas(quota.Defaults{quota.Key: limit(30), quota.Tenant: limit(1)})
		})
		a := request(t, server, "POST "+portURL(port)+"/links", `{"expires_in": "1h"}`, by("operator"))
		require.Equal(t, 200, a.status, a.text)
		_, link, _ := strings.Cut(a.body["url"].(string), "://")
		host, path, _ := strings.Cut(link, "/")

		refused := func(route, body string, headers ...string) {
			t.Helper()
			var a response
			for range 2 + 1 { // the burst of a tenant is twice its limit
				a = request(t, server, route, body, headers...)
			}
			require.Equal(t, 429, a.status, "%s: %s", route, a.text)
			require.Equal(t, "rate_limited", a.body["code"], a.text)
			require.Equal(t, "tenant alice: requests a second", a.body["quota"])
			require.Equal(t, "1", a.header.Get("Retry-After"))
		}
		refused("GET /v1/claims", "", by("alice"))
		refused("GET /v1/no-such-path", "", by("alice2"))
		refused("GET "+portURL(port)+"/", "", by("alice"))
		refused("GET "+portURL(port)+"/", "", by("alice"), "Connection: Upgrade", "Upgrade: websocket")
		refused("GET /"+path, "", "Host: "+host)
		for range 70 {
			require.NotEqual(t, 429, request(t, server, "GET /v1/claims", "", by("operator")).status)
			require.NotEqual(t, 429, request(t, server, "GET /healthz", "").status)
		}
	})
}
