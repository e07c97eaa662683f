package kubernetes

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/oidc"
	"github.com/hostler/hostler/client"
)

// Tokens of service accounts are tokens of an issuer: the API server, whose issuer
// name resolves in the cluster only. Its keys are read where it is reached, with its
// CA and with a token of a service account. A token for the API server itself, which
// each pod has, is refused: it has another audience.
func TestServiceAccountTokens(t *testing.T) {
	t.Parallel()
	c := requireCluster(t)
	namespace := c.namespace(t, "restricted")
	var about struct{ Issuer string }
	c.mustDo(t, "GET", "/.well-known/openid-configuration", nil, &about)
	issuer := oidc.Issuer{
		URL: about.Issuer, Audiences: []string{"hostler"}, JWKSURL: c.config.Host + "/openid/v1/jwks",
		CAFile: c.authorityFile(t), TokenFile: filepath.Join(t.TempDir(), "token"),
	}
	require.NoError(t, os.WriteFile(issuer.TokenFile, []byte(c.token(t, namespace, "default")), 0o600))
	verifier, err := oidc.New(issuer)
	require.NoError(t, err)

	subject, err := verifier.Verify(t.Context(), c.tokenFor(t, namespace, "default", "hostler"))
	require.NoError(t, err)
	require.Equal(t, auth.OIDCSubject, subject.Kind)
	require.Equal(t, about.Issuer, subject.Issuer)
	require.Equal(t, "system:serviceaccount:"+namespace+":default", subject.Name)
	require.Equal(t, []string{namespace}, subject.Claims["kubernetes.io.namespace"])
	require.Equal(t, []string{"default"}, subject.Claims["kubernetes.io.serviceaccount.name"])

	for _, audience := range []string{"elsewhere", ""} {
		_, err = verifier.Verify(t.Context(), c.tokenFor(t, namespace, "default", audience))
		require.ErrorIs(t, err, auth.ErrInvalidCredential)
	}

	// Without a token the API server does not show its keys.
	issuer.TokenFile = ""
	verifier, err = oidc.New(issuer)
	require.NoError(t, err)
	_, err = verifier.Verify(t.Context(), c.tokenFor(t, namespace, "default", "hostler"))
	require.ErrorIs(t, err, auth.ErrUnavailable)
}

// A server gives a service account the role of the binding that names it, and none to
// another account.
func TestServerAcceptsServiceAccounts(t *testing.T) {
	t.Parallel()
	c := requireCluster(t)
	namespace, other := c.namespace(t, "restricted"), c.namespace(t, "restricted")
	var about struct{ Issuer string }
	c.mustDo(t, "GET", "/.well-known/openid-configuration", nil, &about)
	dir := t.TempDir()
	token, bindings := filepath.Join(dir, "token"), filepath.Join(dir, "bindings.yaml")
	require.NoError(t, os.WriteFile(token, []byte(c.token(t, namespace, "default")), 0o600))
	require.NoError(t, os.WriteFile(bindings, []byte("- name: shop\n  kind: oidc\n  issuer: "+about.Issuer+
		"\n  subject: system:serviceaccount:"+namespace+":default\n  role: tenant\n  tenants: [shop]\n"), 0o600))
	base := startServer(t, "--runtime", "process", "--bindings-file", bindings, "--oidc-issuer", about.Issuer,
		"--oidc-audience", "hostler", "--oidc-jwks-uri", c.config.Host+"/openid/v1/jwks",
		"--oidc-ca-file", c.authorityFile(t), "--oidc-token-file", token)
	for _, test := range []struct {
		namespace, audience string
		status              int
	}{{namespace, "hostler", 0}, {namespace, "", 401}, {other, "hostler", 401}} {
		api, err := client.New(base, c.tokenFor(t, test.namespace, "default", test.audience))
		require.NoError(t, err)
		_, err = api.Claims(t.Context(), client.ClaimFilter{})
		if test.status == 0 {
			require.NoError(t, err)
			continue
		}
		problem := new(client.Error)
		require.ErrorAs(t, err, &problem)
		require.Equal(t, test.status, problem.Status)
	}
}

// authorityFile writes the certificate of the cluster's CA to a file.
func (c *cluster) authorityFile(t testing.TB) string {
	t.Helper()
	if len(c.config.CAData) == 0 {
		return c.config.CAFile
	}
	path := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(path, c.config.CAData, 0o600))
	return path
}

// tokenFor returns a token of a service account for an audience; empty: for the API
// server.
func (c *cluster) tokenFor(t testing.TB, namespace, account, audience string) string {
	t.Helper()
	var made struct{ Status struct{ Token string } }
	spec := object{"expirationSeconds": 600}
	if audience != "" {
		spec["audiences"] = []string{audience}
	}
	c.mustDo(t, "POST", "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+account+"/token", object{"spec": spec}, &made)
	return made.Status.Token
}
