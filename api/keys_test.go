package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
)

// principals are the holders of keys, by the key. It is open until closed is set.
type principals struct {
	known  map[string]*auth.Principal
	isOpen atomic.Bool
}

func (p *principals) IsOpen() bool { return p.isOpen.Load() }

func (p *principals) Authenticate(_ context.Context, r auth.Request) (*auth.Principal, error) {
	if found, ok := p.known[r.Bearer]; ok {
		return found, nil
	}
	return nil, auth.ErrInvalidCredential
}

func (p *principals) IsCredential(_ context.Context, text string) bool {
	return p.known[text] != nil
}

func (*principals) Follow(*auth.Principal, func(error)) (stop func()) { return func() {} }

// testPrincipals are a principal of each kind, whose key is its name.
func testPrincipals() *principals {
	p := &principals{known: map[string]*auth.Principal{}}
	for name, g := range map[string]auth.Grant{
		"ops":     {Role: auth.Operator},
		"alice":   {Role: auth.Tenant, Tenants: []activity.Pattern{activity.Exactly("alice")}},
		"web":     {Role: auth.Tenant, Tenants: []activity.Pattern{activity.Exactly("alice")}, Workloads: []activity.Pattern{activity.Exactly("web")}},
		"group":   {Role: auth.Tenant, Tenants: []activity.Pattern{activity.Anything}, Workloads: []activity.Pattern{activity.Exactly("web")}},
		"one":     {Role: auth.Tenant, Tenants: []activity.Pattern{activity.Exactly("alice")}, Claim: "claim-alice"},
		"author":  {Role: auth.Author, Workloads: []activity.Pattern{activity.Exactly("web")}},
		"viewer":  {Role: auth.Viewer},
		"metrics": {Role: auth.Metrics},
	} {
		p.known[name] = &auth.Principal{Actor: "key:" + name, Name: name, Grants: []auth.Grant{g}}
	}
	return p
}

func withPrincipals(p *principals) func(*api.Options) {
	return func(o *api.Options) { o.Auth = p }
}

// A key is shown when it is created and never again.
func TestKeys(t *testing.T) {
	server := startServer(t, newTestBackend(), withPrincipals(testPrincipals()))
	as := "Authorization: Bearer ops"
	made := request(t, server, "POST /v1/keys", `{"name":"ci","role":"author","workloads":["web-*"],"expires_in":"24h"}`, as)
	require.Equal(t, 201, made.status, made.text)
	require.Equal(t, "hostler_ci", made.body["key"])
	require.Equal(t, "ci", made.body["name"])
	require.Nil(t, made.body["closed"])
	require.Equal(t, "no-store", made.header.Get("Cache-Control"))
	require.JSONEq(t, `[{"role":"author","workloads":["web-*"]}]`, textOf(t, made.body["grants"]))
	require.Equal(t, "2026-01-03T03:04:05Z", made.body["expires_at"])

	for _, route := range []string{"GET /v1/keys", "GET /v1/keys/ci", "DELETE /v1/keys/ci", "DELETE /v1/keys/ci"} {
		a := request(t, server, route, "", as)
		require.Equal(t, 200, a.status, a.text)
		require.NotContains(t, a.text, "hostler_ci", route)
		require.Equal(t, strings.HasPrefix(route, "DELETE"), strings.Contains(a.text, "revoked_at"), route)
	}
	require.Equal(t, "key_exists", request(t, server, "POST /v1/keys", `{"name":"ci","role":"operator"}`, as).body["code"])
	for _, route := range []string{"GET /v1/keys/none", "DELETE /v1/keys/none"} {
		a := request(t, server, route, "", as)
		require.Equal(t, 404, a.status)
		require.Equal(t, "key_not_found", a.body["code"])
	}
}

func textOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// A request that would make a credential of another power than was meant is refused,
// with the field.
func TestInvalidKeysAndBindings(t *testing.T) {
	b := newTestBackend()
	server := startServer(t, b, withPrincipals(testPrincipals()))
	for _, tt := range []struct{ route, body, want string }{
		{"POST /v1/keys", `{"name":"x","role":"tenant"}`, "name at least one tenant"},
		{"POST /v1/keys", `{"name":"x","role":"author"}`, "name at least one workload"},
		{"POST /v1/keys", `{"name":"x","role":"operator","tenants":["alice"]}`, "not limited to tenants"},
		{"POST /v1/keys", `{"name":"x","role":"root"}`, "body.role"},
		{"POST /v1/keys", `{"name":"../x","role":"viewer"}`, "body.name"},
		{"POST /v1/keys", `{"role":"viewer"}`, "name"},
		{"POST /v1/keys", `{"name":"x","role":"tenant","tenants":["a","b*c"]}`, "body.tenants[1]"},
		{"POST /v1/keys", `{"name":"x","role":"author","workloads":[""]}`, "body.workloads[0]"},
		{"POST /v1/keys", `{"name":"x","role":"viewer","expires_in":"-1s"}`, "body.expires_in"},
		{"POST /v1/keys", `{"name":"x","role":"viewer","expires_in":"99999h"}`, "body.expires_in"},
		{"PUT /v1/bindings/x", `{"kind":"oidc","role":"tenant","tenants":["*x"]}`, "body.tenants[0]"},
		{"PUT /v1/bindings/x", `{"kind":"oidc","role":"viewer","claims":{"groups":"a*b"}}`, "body.claims.groups"},
		{"PUT /v1/bindings/x", `{"kind":"oidc","role":"viewer","subject":"a*b"}`, "body.subject"},
		{"PUT /v1/bindings/x", `{"kind":"ldap","role":"viewer"}`, "body.kind"},
		{"PUT /v1/bindings/-x", `{"kind":"cert","role":"viewer"}`, "path.name"},
		{"POST /v1/tokens", `{}`, "body.tenant"},
		{"POST /v1/tokens", `{"tenant":"alice","expires_in":"2h"}`, "body.expires_in"},
		{"POST /v1/tokens", `{"tenant":"alice","workloads":["*x"]}`, "body.workloads[0]"},
	} {
		a := request(t, server, tt.route, tt.body, "Authorization: Bearer ops")
		require.Equal(t, 422, a.status, tt.body+a.text)
		require.Contains(t, a.text, tt.want, tt.body)
	}
	require.Empty(t, b.Keys)
	require.Empty(t, b.Bindings)
	require.Empty(t, b.Requests)
}

// The errors of credentials have codes of their own.
func TestCredentialErrors(t *testing.T) {
	b := newTestBackend()
	server := startServer(t, b, withPrincipals(testPrincipals()))
	for _, tt := range []struct {
		call, route, body string
		err               error
		status            int
		code              string
	}{
		{"create-key", "POST /v1/keys", `{"name":"x","role":"viewer"}`, credential.ErrFirst, 409, "first_credential"},
		{"create-key", "POST /v1/keys", `{"name":"x","role":"viewer"}`, credential.ErrInvalid, 422, "invalid_request"},
		{"key", "DELETE /v1/keys/x", "", credential.ErrFromFile, 409, "credential_in_file"},
		{"put-binding", "PUT /v1/bindings/x", `{"kind":"cert","role":"viewer"}`, credential.ErrFirst, 409, "first_credential"},
		{"put-binding", "PUT /v1/bindings/x", `{"kind":"cert","role":"viewer"}`, credential.ErrFromFile, 409, "credential_in_file"},
	} {
		b.Fail(tt.call, tt.err)
		a := request(t, server, tt.route, tt.body, "Authorization: Bearer ops")
		require.Equal(t, tt.status, a.status, a.text)
		require.Equal(t, tt.code, a.body["code"])
		b.Fail(tt.call, nil)
	}
}

func TestBindings(t *testing.T) {
	server := startServer(t, newTestBackend(), withPrincipals(testPrincipals()))
	as := "Authorization: Bearer ops"
	body := `{"kind":"oidc","issuer":"https://id.example","subject":"ci-*","claims":{"groups":"dev"},"role":"tenant","tenant_claim":"team"}`
	a := request(t, server, "PUT /v1/bindings/dev", body, as)
	require.Equal(t, 201, a.status, a.text)
	require.JSONEq(t, `{"name":"dev","source":"database",`+body[1:], a.text)
	require.Equal(t, 200, request(t, server, "PUT /v1/bindings/dev", body, as).status)
	require.JSONEq(t, a.text, request(t, server, "GET /v1/bindings/dev", "", as).text)
	require.Len(t, request(t, server, "GET /v1/bindings", "", as).body["items"], 1)
	require.Equal(t, 204, request(t, server, "DELETE /v1/bindings/dev", "", as).status)
	for _, route := range []string{"GET /v1/bindings/dev", "DELETE /v1/bindings/dev"} {
		require.Equal(t, "binding_not_found", request(t, server, route, "", as).body["code"], route)
	}
}

// Only operators manage credentials, whatever is asked about.
func TestOnlyOperatorsManageCredentials(t *testing.T) {
	server := startServer(t, newTestBackend(), withPrincipals(testPrincipals()))
	for _, who := range []string{"alice", "group", "one", "author", "viewer", "metrics"} {
		for _, route := range []string{
			"GET /v1/keys", "GET /v1/keys/none", "DELETE /v1/keys/none", "POST /v1/keys", "GET /v1/bindings", "GET /v1/bindings/none",
			"PUT /v1/bindings/none", "DELETE /v1/bindings/none",
		} {
			body := map[string]string{"PO": `{"name":"x","role":"operator"}`, "PU": `{"kind":"unix","role":"operator"}`}[route[:2]]
			a := request(t, server, route, body, "Authorization: Bearer "+who)
			require.Equal(t, 403, a.status, who+" "+route+a.text)
		}
	}
}

// A token is for a tenant and a claim that its maker may use.
func TestTokens(t *testing.T) {
	for _, tt := range []struct {
		who, body string
		status    int
		want      string
	}{
		{"ops", `{"tenant":"bob"}`, 201, "bob"},
		{"alice", `{}`, 201, "alice"},
		{"web", `{}`, 201, "alice"},
		{"alice", `{"tenant":"alice","claim":"claim-alice"}`, 201, "alice"},
		{"alice", `{"tenant":"bob"}`, 403, "forbidden"},
		{"alice", `{"claim":"claim-bob"}`, 404, "claim_not_found"},
		{"alice", `{"claim":"claim-none"}`, 404, "claim_not_found"},
		{"ops", `{"tenant":"alice","claim":"claim-bob"}`, 404, "claim_not_found"},
		{"group", `{}`, 422, "invalid_request"},
		{"group", `{"tenant":"bob"}`, 201, "bob"},
		{"one", `{}`, 403, "forbidden"},
		{"one", `{"claim":"claim-alice"}`, 201, "alice"},
		{"author", `{"tenant":"alice"}`, 403, "forbidden"},
		{"viewer", `{"tenant":"alice"}`, 403, "forbidden"},
	} {
		b := newTestBackend()
		server := startServer(t, b, withPrincipals(testPrincipals()))
		a := request(t, server, "POST /v1/tokens", tt.body, "Authorization: Bearer "+tt.who)
		require.Equal(t, tt.status, a.status, tt.who+tt.body+a.text)
		if tt.status != 201 {
			require.Equal(t, tt.want, a.body["code"])
			require.Empty(t, b.Requests)
			continue
		}
		require.Equal(t, tt.want, a.body["tenant"])
		require.Equal(t, "token-of-"+tt.who, a.body["token"])
		require.Equal(t, credential.DefaultTokenTTL, b.Requests[0].(credential.NewToken).ExpiresIn)
	}
}

// closingKeys closes the server with the first key.
type closingKeys struct {
	api.Keyring
	closes *principals
}

func (k closingKeys) CreateKey(ctx context.Context, n credential.NewKey) (credential.Key, string, error) {
	defer k.closes.isOpen.Store(false)
	return k.Keyring.CreateKey(ctx, n)
}

// The first key closes a server that was open, and its response reports it.
func TestFirstKeyClosesServer(t *testing.T) {
	p := testPrincipals()
	p.isOpen.Store(true)
	var log bytes.Buffer
	server := startServer(t, newTestBackend(), withPrincipals(p), func(o *api.Options) {
		o.Keys = closingKeys{o.Keys, p}
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	first := request(t, server, "POST /v1/keys", `{"name":"ops","role":"operator"}`)
	require.Equal(t, 201, first.status, first.text)
	require.Equal(t, true, first.body["closed"])
	require.Contains(t, log.String(), "requests without a credential are refused")
	require.NotContains(t, log.String(), "hostler_ops")
	require.Equal(t, 401, request(t, server, "GET /v1/keys", "").status)
	second := request(t, server, "POST /v1/keys", `{"name":"more","role":"operator"}`, "Authorization: Bearer ops")
	require.Equal(t, 201, second.status, second.text)
	require.Nil(t, second.body["closed"])
}

func TestWhoAmI(t *testing.T) {
	p := testPrincipals()
	p.known["alice"].Expires = apitest.Time
	server := startServer(t, newTestBackend(), withPrincipals(p))
	a := request(t, server, "GET /v1/whoami", "", "Authorization: Bearer alice")
	require.JSONEq(t, `{"actor":"key:alice","name":"alice","grants":[{"role":"tenant","tenants":["alice"]}],"expires_at":"2026-01-02T03:04:05Z"}`, a.text)
	a = request(t, server, "GET /v1/whoami", "", "Authorization: Bearer metrics")
	require.JSONEq(t, `{"actor":"key:metrics","name":"metrics","grants":[{"role":"metrics"}]}`, a.text)
	require.Equal(t, 401, request(t, server, "GET /v1/whoami", "").status)
}

// What a credential may do is answered by the rules, for things that exist and for
// those that do not alike.
func TestCanI(t *testing.T) {
	server := startServer(t, newTestBackend(), withPrincipals(testPrincipals()))
	ask := func(who, query string) response {
		a := request(t, server, "GET /v1/can-i?"+query, "", "Authorization: Bearer "+who)
		require.Equal(t, 200, a.status, a.text)
		return a
	}
	for _, tt := range []struct {
		who, query string
		want       bool
	}{
		{"ops", "operation=create-key", true},
		{"alice", "operation=create-key", false},
		{"metrics", "verb=get&thing=metrics", true},
		{"metrics", "verb=list&thing=claims", false},
		{"metrics", "operation=whoami", true},
		{"metrics", "operation=healthz", true},
		{"alice", "verb=create&thing=claim", true},
		{"alice", "verb=create&thing=claim&tenant=alice", true},
		{"alice", "verb=create&thing=claim&tenant=bob", false},
		{"web", "verb=create&thing=claim&workload=web", true},
		{"web", "verb=create&thing=claim&workload=other", false},
		{"alice", "verb=release&thing=claim&claim=claim-alice", true},
		{"alice", "verb=release&thing=claim&claim=claim-alice&tenant=bob", false},
		{"alice", "verb=release&thing=claim&claim=claim-bob", false},
		{"alice", "verb=release&thing=claim&claim=claim-none", false},
		{"one", "verb=release&thing=claim&claim=claim-bob", false},
		{"ops", "verb=release&thing=claim&claim=claim-none", true},
		{"author", "verb=apply&thing=workload&workload=web", true},
		{"author", "verb=apply&thing=workload&workload=other", false},
		{"author", "verb=create&thing=claim", false},
		{"viewer", "operation=doctor", true},
		{"viewer", "verb=get&thing=file", false},
	} {
		a := ask(tt.who, tt.query)
		require.Equal(t, tt.want, a.body["allowed"], tt.who+" "+tt.query+a.text)
		require.NotEmpty(t, a.body["reason"])
	}
	require.Equal(t, ask("alice", "operation=release&claim=claim-bob").text, ask("alice", "operation=release&claim=claim-none").text)
	for _, bad := range []string{"", "operation=none", "verb=fly&thing=claim", "verb=list", "operation=claim&verb=list"} {
		a := request(t, server, "GET /v1/can-i?"+bad, "", "Authorization: Bearer alice")
		require.Equal(t, 422, a.status, a.text)
		require.Contains(t, a.text, "query.")
	}
}
