package kubernetes

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

const callers = `secrets:
  TOKEN: { file: registry/token }
  KEY: { env: HOSTLER_SECRET_KEY }
  OTHER: { env: HOSTLER_SECRET_OTHER }
hooks:
  post_claim:
    - { name: call, http: { url: "URL/both", headers: { X-Key: "${KEY}" }, auth: { type: bearer, secret: TOKEN } } }
    - { name: limited, http: { url: "URL/limited", auth: { type: bearer, secret: OTHER } }, on_error: continue }
    - { name: denied, http: { url: "http://169.254.1.1:1/" }, on_error: continue }
`

// Requests of an installed server go where the values permit, with the secrets
// of the Secrets that the values name.
func TestInstalledHooks(t *testing.T) {
	t.Parallel()
	c := requireCluster(t)
	requireHelm(t)
	namespace := c.namespace(t, "restricted")
	for name, entries := range map[string]object{
		"credentials":  {"registry-token": "token-from-a-file", "registry-limit": "callers@*"},
		"hook-secrets": {"KEY": "key-from-the-environment", "OTHER": "limited-to-another-host"},
	} {
		c.mustDo(t, "POST", "/api/v1/namespaces/"+namespace+"/secrets", object{"metadata": object{"name": name}, "stringData": entries}, nil)
	}
	requests := make(chan *http.Request, 10)
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { requests <- r }))
	receiver.Listener.Close() //nolint:errcheck // it is replaced
	var err error
	receiver.Listener, err = net.Listen("tcp", net.JoinHostPort(c.nodeAddress(t), "0"))
	require.NoError(t, err)
	receiver.Start()
	t.Cleanup(receiver.Close)

	i := install(t, c, namespace, namespace, fmt.Sprintf(`store: { sqlite: { persistent: false } }
workloads: { nonRoot: true }
credentials: { existingSecret: credentials, items: [{ key: registry-token, path: registry/token }, { key: registry-limit, path: registry/token.allow }] }
hooks:
  allow: [%s]
  deny: [169.254.0.0/16]
  secrets: { existingSecret: hook-secrets, allow: { OTHER: "*@vault.example" } }
`, c.nodeAddress(t)))
	i.apply("callers", workload(t, "callers", strings.ReplaceAll(callers, "URL", receiver.URL)))
	held, _, err := i.Claim(t.Context(), "callers", "ada", waitTimeout)
	require.NoError(t, err)
	require.Equal(t, []string{"post_claim/call/succeeded", "post_claim/limited/start_failed", "post_claim/denied/start_failed"}, i.runs(held.ID))
	require.Len(t, requests, 1)
	r := <-requests
	require.Equal(t, "/both", r.URL.Path)
	require.Equal(t, "Bearer token-from-a-file", r.Header.Get("Authorization"))
	require.Equal(t, "key-from-the-environment", r.Header.Get("X-Key"))
	runs, err := i.Runs(t.Context(), client.RunFilter{Claim: held.ID})
	require.NoError(t, err)
	require.Contains(t, runs[2].Error, "denied by the server")
	_, err = i.Release(t.Context(), held.ID, false)
	require.NoError(t, err)
	i.remove("callers")
}
