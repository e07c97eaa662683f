package request

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
)

// A preview shows everything of a request but its secrets, and sends nothing.
func TestPreview(t *testing.T) {
	port, connections := everywhere(t)
	url := "http://127.0.0.1:" + port
	t.Setenv("HOSTLER_SECRET_A", "canary-0123456789")
	t.Setenv("HOSTLER_SECRET_URL", url+"/canary-path-0123456789?canary=0123456789")
	secrets := map[string]hooks.Secret{"A": {Env: "HOSTLER_SECRET_A"}, "URL": {Env: "HOSTLER_SECRET_URL"}}
	google := &fakeGoogle{}
	x := newExecutor(t, Options{Google: google, GoogleDefault: true})
	a := attemptOf(hooks.Request{
		URL: template(t, url+"/v1/${V}?k=${A}"), Body: bodyOf(t, `{"v": "${V}", "k": "${A}", "n": "${NONE}"}`),
		Headers: map[string]variables.Template{"X": template(t, "k ${A}"), "Cookie": template(t, "plain")},
		Auth:    hooks.Auth{Type: hooks.AuthBearer, Secret: "A"},
	})
	a.Secrets, a.Lookup = secrets, values(map[string]string{"V": "a b"})
	p, err := x.Preview(a)
	require.NoError(t, err)
	require.Equal(t, Preview{
		Method: "POST", URL: url + "/v1/a%20b?k=•••", Body: `{"v": "a b", "k": "•••", "n": ""}`,
		Headers: map[string]string{
			"X": "k •••", "Cookie": "•••", "Authorization": "•••", "User-Agent": "hostler",
			hooks.HeaderKey: "run-1", "X-Hostler-Hook-Id": "c-1:register:post_claim:run-1",
		},
		Warnings: []string{"the variable NONE is empty"},
	}, p)
	for _, request := range []hooks.Request{
		{URL: template(t, "${URL}"), Webhook: true, Sign: "A"},
		{URL: template(t, url), Auth: hooks.Auth{Type: hooks.AuthAPIKey, Secret: "A", Header: "X-Key"}},
		{URL: template(t, url), Auth: hooks.Auth{Type: hooks.AuthGCP}},
		{URL: template(t, "http://bot:${A}@127.0.0.1")},
	} {
		a := attemptOf(request)
		a.Secrets = secrets
		p, err := x.Preview(a)
		require.NoError(t, err)
		text, err := json.Marshal(p)
		require.NoError(t, err)
		require.NotContains(t, string(text), "canary")
		remains(t, "canary-0123456789", string(text))
		require.Contains(t, string(text), redacted)
	}
	_, err = x.Preview(attemptOf(hooks.Request{URL: template(t, url), Auth: hooks.Auth{Type: hooks.AuthBearer, Secret: "NONE"}}))
	require.ErrorContains(t, err, "not declared")
	t.Setenv("HOSTLER_SECRET_A_ALLOW", "agent-a@registry.example")
	other := attemptOf(hooks.Request{URL: template(t, "https://${A}.example/")})
	other.Secrets = secrets
	_, err = x.Preview(other)
	require.ErrorContains(t, err, "host •••.example")
	require.Zero(t, connections.Load())
	require.Zero(t, google.n)
}
