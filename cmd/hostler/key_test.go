package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/auth/credential"
	"github.com/hostler/hostler/client"
)

// The key alone is on the output, so that it can be written into a file.
func TestKeyCreate(t *testing.T) {
	serveTestBackend(t)
	code, out, errOut := hostler(t, "", "key", "create", "ops", "--role", "operator")
	require.Equal(t, exitOK, code, errOut)
	require.Equal(t, "hostler_ops\n", out)
	require.Equal(t, "key ops created; it is not shown again\n", errOut)
	code, out, errOut = hostler(t, "", strings.Fields("key create app --role tenant --tenant alice --tenant team-* --workload web --expires 24h -o json")...)
	require.Equal(t, exitOK, code, errOut)
	var made client.CreatedKey
	require.NoError(t, json.Unmarshal([]byte(out), &made))
	require.Equal(t, "hostler_app", made.Secret)
	require.Equal(t, []client.Grant{{Role: client.RoleTenant, Tenants: []string{"alice", "team-*"}, Workloads: []string{"web"}}}, made.Grants)
	require.Equal(t, apitest.Time.Add(24*time.Hour), *made.ExpiresAt)
	code, out, _ = hostler(t, "", "key", "bootstrap")
	require.Equal(t, exitOK, code)
	require.Equal(t, "hostler_operator\n", out)
}

// The output of each command of credentials matches its golden file.
func TestCredentialOutput(t *testing.T) {
	for _, test := range []struct{ name, args string }{
		{"key-list", "key list"},
		{"key-get-yaml", "key get app -o yaml"},
		{"key-revoke", "key revoke app"},
		{"token-create", "token create --tenant alice --claim claim-alice --ttl 5m"},
		{"token-create-json", "token create --tenant alice -o json"},
		{"binding-list", "binding list"},
		{"binding-delete", "binding delete dev"},
		{"whoami", "whoami"},
		{"can-i", "can-i create claims --tenant alice"},
		{"can-i-json", "can-i revoke key -o json"},
	} {
		t.Run(test.name, func(t *testing.T) {
			serveTestBackend(t)
			file := filepath.Join(t.TempDir(), "bindings.yaml")
			require.NoError(t, os.WriteFile(file, []byte(testBindings), 0o600))
			for _, args := range []string{
				"key create ops --role operator", "key create app --role tenant --tenant alice,bob --expires 1h", "binding apply -f " + file,
			} {
				code, _, errOut := hostler(t, "", strings.Fields(args)...)
				require.Equal(t, exitOK, code, errOut)
			}
			code, out, errOut := hostler(t, "", strings.Fields(test.args)...)
			require.Equal(t, exitOK, code, errOut)
			golden(t, filepath.Join("testdata", test.name+".txt"), "$ hostler "+test.args+"\n"+out+errOut)
		})
	}
}

const testBindings = `bindings:
  - name: dev
    kind: oidc
    issuer: https://id.example
    claims: {groups: dev-*}
    role: author
    workloads: ["web-*"]
  - {name: root, kind: unix, subject: "0", role: operator}
`

// What is refused names the flag, the file or the command that helps.
func TestCredentialCommandErrors(t *testing.T) {
	for _, test := range []struct {
		args, stdin string
		call        string
		fail        error
		code        int
		want        string
	}{
		{args: "key create x", code: exitUsage, want: "--role"},
		{args: "key create x --role tenant", code: exitFailure, want: "name at least one tenant"},
		{args: "key create x --role operator --expires -1h", code: exitUsage, want: "--expires"},
		{args: "key create x --role viewer", call: "create-key", fail: credential.ErrExists, code: exitFailure, want: "choose another name"},
		{args: "key create x --role viewer", call: "create-key", fail: credential.ErrFirst, code: exitFailure, want: "--role operator"},
		{args: "key get x", code: exitNotFound, want: "hostler key list"},
		{args: "key revoke x", code: exitNotFound, want: "hostler key list"},
		{args: "key revoke x", call: "key", fail: credential.ErrFromFile, code: exitFailure, want: "change the file"},
		{args: "token create", code: exitFailure, want: "name the tenant"},
		{args: "token create --ttl -1s", code: exitUsage, want: "--ttl"},
		{args: "token create --tenant alice --claim claim-carl", code: exitNotFound, want: "no such claim"},
		{args: "binding apply", code: exitUsage, want: "-f"},
		{args: "binding apply -f -", stdin: "", code: exitFailure, want: "no bindings"},
		{args: "binding apply -f -", stdin: "- {kind: unix, role: viewer}", code: exitFailure, want: "bindings[0].name"},
		{args: "binding apply -f -", stdin: "- {name: a, rol: viewer}", code: exitFailure, want: "rol"},
		{args: "binding delete x", code: exitNotFound, want: "hostler binding list"},
		{args: "can-i fly claim", code: exitFailure, want: "query.verb"},
		{args: "can-i list", code: exitUsage, want: "name the THING"},
	} {
		t.Run(test.args+" "+test.want, func(t *testing.T) {
			b := serveTestBackend(t)
			b.Fail(test.call, test.fail)
			code, _, errOut := hostler(t, test.stdin, strings.Fields(test.args)...)
			require.Equal(t, test.code, code, errOut)
			require.Contains(t, errOut, test.want)
		})
	}
}

// The state of a key is what a request with it would find.
func TestKeyState(t *testing.T) {
	before, now, after := apitest.Time.Add(-1), apitest.Time, apitest.Time.Add(1)
	for _, tt := range []struct {
		key  client.Key
		want string
	}{
		{client.Key{}, "active"},
		{client.Key{ExpiresAt: &after}, "active"},
		{client.Key{ExpiresAt: &now}, "expired"},
		{client.Key{ExpiresAt: &before}, "expired"},
		{client.Key{ExpiresAt: &before, RevokedAt: &now}, "revoked"},
	} {
		require.Equal(t, tt.want, keyState(tt.key, now))
	}
}

// Verbs and things are completed from the table.
func TestQuestionCompletion(t *testing.T) {
	verbs, _ := completeQuestion(nil, nil, "")
	require.Contains(t, verbs, "release")
	things, _ := completeQuestion(nil, []string{"scale"}, "")
	require.Equal(t, []string{"pool"}, things)
	more, _ := completeQuestion(nil, []string{"scale", "pool"}, "")
	require.Empty(t, more)
}
