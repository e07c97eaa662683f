package gate

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/access"
)

// A receiver gets a description of what the tenant wants, in which nothing of the tenant
// is more than text, and no secret.
func TestEnvelope(t *testing.T) {
	t.Setenv("HOSTLER_SECRET_GATE", "very-secret-value")
	bodies := make(chan string, 1)
	url := receive(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- r.Method + " " + r.URL.RequestURI() + " " + string(body)
		reply(200, `{"decision": "allow"}`)(w, r)
	})
	b := newBench(t)
	secrets := "secrets: {KEY: {env: HOSTLER_SECRET_GATE}}\n"
	g := grant(t, secrets+strings.Replace(asks(url+"/d", ""), "'}", "', auth: {type: bearer, secret: KEY}}", 1))
	hostile := access.CommandUse{ID: "x", Args: []string{`/bin/a"}`, "very-secret-value", "\x00\n${KEY}"}, Environment: map[string]string{`"`: "very-secret-value"}, Workdir: "/w", User: "1", Terminal: true}
	require.NoError(t, b.Exec(t.Context(), g, hostile))
	body := <-bodies
	require.NotContains(t, body, "very-secret-value")
	require.Contains(t, body, `"args":["/bin/a\"}","•••","\u0000\n${KEY}"]`)
	require.Contains(t, body, `"environment":{"\"":"•••"}`)
}

// describe asks about a use and returns what the receiver got.
func describe(t *testing.T, gate, hook string, use func(b *bench, g access.Grant) error) (path string, body map[string]any) {
	t.Helper()
	received := make(chan struct{}, 1)
	url := receive(t, func(w http.ResponseWriter, r *http.Request) {
		path = r.Method + " " + r.URL.RequestURI()
		data, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(data, &body)
		received <- struct{}{}
		reply(200, `{"decision": "allow"}`)(w, r)
	})
	b := newBench(t)
	g := grant(t, "hooks: {"+gate+": [{name: ask, http: {url: '"+url+"/d"+hook+"}]}")
	require.NoError(t, use(b, g))
	<-received
	return path, body
}

// Each gate describes its use.
func TestUses(t *testing.T) {
	path, body := describe(t, "exec.before", "'}", func(b *bench, g access.Grant) error { return b.Exec(t.Context(), g, list) })
	require.Equal(t, "POST /d", path)
	require.NotEmpty(t, body["run_id"])
	require.NotEmpty(t, body["timestamp"])
	delete(body, "run_id")
	delete(body, "timestamp")
	require.Equal(t, map[string]any{
		"gate": "exec.before", "hook": "ask", "workload": "w", "container": "c-1", "claim": "claim-1", "tenant": "t",
		"command": map[string]any{
			"id": "x-1", "args": []any{"/bin/ls", "-l"}, "environment": map[string]any{"A": "b"}, "user": "1000", "workdir": "/w", "terminal": false,
		},
	}, body)
	_, body = describe(t, "file.before", "'}", func(b *bench, g access.Grant) error {
		_, err := b.File(t.Context(), g, access.FileUse{Action: access.FileWrite, Path: "/w/a"})
		return err
	})
	require.Equal(t, map[string]any{"action": "write", "path": "/w/a"}, body["file"])
	_, body = describe(t, "request.before", "'}", func(b *bench, g access.Grant) error {
		return b.Request(t.Context(), g, access.PortUse{Port: 80, Method: "GET", Path: "/x", Host: "h"})
	})
	require.Equal(t, map[string]any{"port": 80.0, "method": "GET", "path": "/x", "host": "h"}, body["request"])
	path, body = describe(t, "exec.before", "?tool=${TOOL_NAME}&claim=${CLAIM_ID}&at=${EVENT_TYPE}', method: GET}", func(b *bench, g access.Grant) error {
		return b.Exec(t.Context(), g, access.CommandUse{Args: []string{"/x/a&b=c"}})
	})
	require.Equal(t, "GET /d?tool=a%26b%3Dc&claim=claim-1&at=exec.before", path)
	require.Empty(t, body)
}
