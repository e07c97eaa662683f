package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
	"github.com/hostler/hostler/store/dbtest"
)

// realKeys are the credentials of a server with a database.
type realKeys struct {
	*credential.Service
	operator, alice string // keys
}

func newRealKeys(t *testing.T) *realKeys {
	t.Helper()
	db := dbtest.Open(t)
	s, err := credential.New(credential.Options{Store: db, Secret: []byte("secret")})
	require.NoError(t, err)
	require.NoError(t, s.Load(t.Context()))
	k := &realKeys{Service: s}
	k.operator = k.create(t, "operator", 0, auth.Grant{Role: auth.Operator})
	k.alice = k.create(t, "alice", 0, auth.Grant{Role: auth.Tenant, Tenants: []activity.Pattern{activity.Exactly("alice")}})
	return k
}

func (k *realKeys) create(t *testing.T, name string, expires time.Duration, g auth.Grant) string {
	t.Helper()
	_, secret, err := k.CreateKey(t.Context(), credential.NewKey{Name: name, Grants: []auth.Grant{g}, ExpiresIn: expires})
	require.NoError(t, err)
	return secret
}

func (k *realKeys) use(o *api.Options) { o.Auth, o.Keys = k, k }

// A link opens its port on a server that requires credentials.
func TestLinkWithKeys(t *testing.T) {
	keys := newRealKeys(t)
	b := newTestBackend()
	port := program(t, b, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "program") })
	server := startServer(t, b, withDomain(t, "ports.example.com"), keys.use)
	link := request(t, server, "POST "+portURL(port)+"/links", `{}`, "Authorization: Bearer "+keys.alice)
	require.Equal(t, 200, link.status, link.text)
	u, err := url.Parse(link.body["url"].(string))
	require.NoError(t, err)
	resp, text := raw(t, server, "GET", "/", nil, "Host: "+u.Host, "Cookie: __Host-hostler_link="+u.Query().Get("hostler_link"))
	require.Equal(t, 200, resp.StatusCode, text)
	require.Equal(t, "program", text)
}

// A link does not outlive what its maker's credential expires with.
func TestLinkExpiresWithItsMaker(t *testing.T) {
	keys := newRealKeys(t)
	server := startServer(t, newTestBackend(), withDomain(t, "ports.example.com"), keys.use)
	token := request(t, server, "POST /v1/tokens", `{"expires_in":"1m"}`, "Authorization: Bearer "+keys.alice)
	require.Equal(t, 201, token.status, token.text)
	link := request(t, server, "POST "+portURL(80)+"/links", `{"expires_in":"24h"}`, "Authorization: Bearer "+token.body["token"].(string))
	require.Equal(t, 200, link.status, link.text)
	expires, err := time.Parse(time.RFC3339, link.body["expires_at"].(string))
	require.NoError(t, err)
	require.Less(t, time.Until(expires), 61*time.Second)
}
