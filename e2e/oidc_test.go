package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/oidctest"
)

// A user logs in at an issuer and has the role of a binding: here that of a tenant,
// which the token names. What the issuer has not signed is refused, and is not in
// the server's log.
func TestLoginAtIssuer(t *testing.T) {
	t.Parallel()
	issuer := oidctest.New(t)
	issuer.Approve(func() oidctest.Claims {
		c := issuer.Valid("cli", "user-1")
		c["customer"] = "alice"
		return c
	})
	bindings := filepath.Join(t.TempDir(), "bindings.yaml")
	text := "- name: customers\n  kind: oidc\n  issuer: " + issuer.URL() + "\n  role: tenant\n  tenant_claim: customer\n"
	require.NoError(t, os.WriteFile(bindings, []byte(text), 0o600))
	s := serve(t, processBackend{}, "--oidc-issuer", issuer.URL(), "--oidc-audience", "cli", "--bindings-file", bindings)

	env := []string{"HOSTLER_CLIENT_CONFIG=" + filepath.Join(t.TempDir(), "config.yaml")}
	run := func(args ...string) commandResult { return hostler(t, env, "", args...) }
	require.Zero(t, run("context", "add", "here", "--server", s.base).code)
	require.NotZero(t, run("get", "claims").code, "the server is not open")
	login := run("login", "--issuer", issuer.URL(), "--client-id", "cli")
	require.Zero(t, login.code, login.err)
	who := run("whoami", "-o", "json")
	require.Zero(t, who.code, who.err)
	require.Contains(t, who.out, "oidc:"+issuer.URL()+"#user-1")
	require.Contains(t, who.out, `"alice"`)
	require.Zero(t, run("get", "claims").code)
	require.NotZero(t, run("get", "containers").code, "that is for operators")
	require.Zero(t, run("logout").code)
	require.NotZero(t, run("whoami").code)

	valid := issuer.Sign(issuer.Valid("cli", "user-2")) // no binding gives it a tenant
	parts := strings.Split(issuer.Sign(map[string]any{"iss": issuer.URL(), "aud": "cli", "sub": "mallory", "customer": "alice", "exp": 9999999999}), ".")
	forged := oidctest.Sign(t, oidctest.NewKey(t, "k1"), nil, issuer.Valid("cli", "mallory"))
	for name, token := range map[string]string{
		"no binding": valid, "no signature": parts[0] + "." + parts[1] + ".", "another key": forged,
		"another audience": issuer.Sign(issuer.Valid("elsewhere", "mallory")),
	} {
		c, err := client.New(s.base, token)
		require.NoError(t, err)
		_, err = c.Pools(t.Context())
		problem := new(client.Error)
		require.ErrorAs(t, err, &problem, name)
		require.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, problem.Status, name)
		for part := range strings.SplitSeq(token, ".") {
			if part != "" {
				require.NotContains(t, s.log.String(), part)
				require.NotContains(t, problem.Error(), part)
			}
		}
	}
}

// While the keys of an issuer cannot be read, its tokens cannot be checked: the
// operator sees why, the client does not.
func TestIssuerIsDown(t *testing.T) {
	t.Parallel()
	issuer := oidctest.New(t)
	down := serve(t, processBackend{}, "--oidc-issuer", "http://127.0.0.1:1", "--oidc-audience", "cli", "--api-key-file", operatorKey(t))
	c, err := client.New(down.base, oidctest.Sign(t, issuer.Key(), nil, map[string]any{"iss": "http://127.0.0.1:1", "aud": "cli", "sub": "a", "exp": 9999999999}))
	require.NoError(t, err)
	_, err = c.Pools(t.Context())
	problem := new(client.Error)
	require.ErrorAs(t, err, &problem)
	require.Equal(t, http.StatusServiceUnavailable, problem.Status)
	require.NotContains(t, problem.Error(), "127.0.0.1:1")
	report := hostler(t, []string{"HOSTLER_SERVER=" + down.base, "HOSTLER_API_KEY=" + operatorSecret}, "", "doctor")
	require.Contains(t, report.out, "the keys of the issuer http://127.0.0.1:1 cannot be read")
}

// operatorSecret is the key of an operator.
const operatorSecret = "a-key-of-an-operator-0123456789"

// operatorKey writes a file with the key of an operator.
func operatorKey(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte("admin:"+operatorSecret+"\n"), 0o600))
	return path
}
