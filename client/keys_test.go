package client_test

import (
	"net"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/client"
)

// A key comes with its creation only, and a broken connection does not create
// another one.
func TestKeyCalls(t *testing.T) {
	c, ctx := serveThrough(t, apitest.New(), nil), t.Context()
	made, err := c.CreateKey(ctx, client.KeyRequest{Name: "app", Role: client.RoleTenant, Tenants: []string{"alice", "team-*"}, ExpiresIn: time.Hour})
	require.NoError(t, err)
	require.Equal(t, "hostler_app", made.Secret)
	require.Equal(t, []client.Grant{{Role: client.RoleTenant, Tenants: []string{"alice", "team-*"}}}, made.Grants)
	require.Equal(t, apitest.Time.Add(time.Hour), *made.ExpiresAt)
	all, err := c.Keys(ctx)
	require.NoError(t, err)
	require.Equal(t, []client.Key{made.Key}, all)
	one, err := c.Key(ctx, "app")
	require.NoError(t, err)
	require.Equal(t, made.Key, one)
	for range 2 {
		revoked, err := c.RevokeKey(ctx, "app")
		require.NoError(t, err)
		require.NotNil(t, revoked.RevokedAt)
	}
	_, err = c.Key(ctx, "none")
	var missing *client.Error
	require.ErrorAs(t, err, &missing)
	require.Equal(t, client.CodeKeyNotFound, missing.Code)
	token, err := c.CreateToken(ctx, client.TokenRequest{Tenant: "alice", ExpiresIn: time.Minute})
	require.NoError(t, err)
	require.Equal(t, client.Token{Token: "token-of-local", Tenant: "alice", ExpiresAt: apitest.Time.Add(time.Minute)}, token)
}

func TestBindingCalls(t *testing.T) {
	c, ctx := serveThrough(t, apitest.New(), nil), t.Context()
	b := client.Binding{
		Name: "dev", Kind: "oidc", Issuer: "https://id.example", Subject: "ci-*", Claims: map[string]string{"groups": "dev"},
		Role: client.RoleTenant, TenantClaim: "team", Workloads: []string{"web"},
	}
	put, created, err := c.PutBinding(ctx, b)
	require.NoError(t, err)
	require.True(t, created)
	b.Source = "database"
	require.Equal(t, b, put)
	_, created, err = c.PutBinding(ctx, put)
	require.NoError(t, err)
	require.False(t, created)
	got, err := c.Binding(ctx, "dev")
	require.NoError(t, err)
	require.Equal(t, b, got)
	all, err := c.Bindings(ctx)
	require.NoError(t, err)
	require.Equal(t, []client.Binding{b}, all)
	require.NoError(t, c.DeleteBinding(ctx, "dev"))
	var missing *client.Error
	require.ErrorAs(t, c.DeleteBinding(ctx, "dev"), &missing)
	require.Equal(t, client.CodeBindingNotFound, missing.Code)
}

// A client may be that of a Unix socket.
func TestWhoAmIOverUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(api.New(apitest.New().Options()))
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	for _, base := range []string{"unix:" + path, "unix://" + path} {
		c, err := client.New(base, "")
		require.NoError(t, err)
		me, err := c.WhoAmI(t.Context())
		require.NoError(t, err)
		require.Equal(t, client.WhoAmI{Actor: "local", Name: "local", Grants: []client.Grant{{Role: client.RoleOperator}}}, me)
		can, err := c.CanI(t.Context(), client.Question{Verb: "create", Thing: "claims", Tenant: "alice"})
		require.NoError(t, err)
		require.True(t, can.Allowed)
		require.Equal(t, "claim", can.Operation)
	}
	_, err = client.New("unix:", "")
	require.Error(t, err)
}
