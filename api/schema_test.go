package api_test

import (
	"bytes"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/pipetest"
)

// The server's responses match its own document, those of errors by their statuses
// too: a client that is generated from the document can read them.
func TestResponsesMatchDocument(t *testing.T) {
	b := newTestBackend()
	server := startServer(t, b)
	text := request(t, server, "GET /openapi.json", "").text
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	require.NoError(t, compiler.AddResource("mem:///openapi.json", doc))

	check := checker(t, server, compiler)
	for _, get := range []string{
		"/v1/workloads", "/v1/workloads/{id=web}", "/v1/workloads/{id=web}/snapshots?tenant=alice", "/v1/pools", "/v1/pools/{workload}",
		"/v1/containers?state=claimed,destroyed", "/v1/containers/{id=box-1}", "/v1/claims?state=released", "/v1/claims/{id=claim-bob}",
		"/v1/hook-runs", "/v1/hook-runs/{id=run-1}", "/v1/events?limit=2", "/v1/doctor", "/healthz", "/readyz",
		// and what does not exist
		"/v1/workloads/{id=x}", "/v1/containers/{id=x}", "/v1/claims/{id=x}", "/v1/hook-runs/{id=x}", "/v1/events?after=99",
	} {
		check(get, "GET", "")
	}
	check("/v1/keys", "POST", `{"name":"ops","role":"operator"}`)
	check("/v1/tokens", "POST", `{"tenant":"alice"}`)
	for _, get := range []string{"/v1/keys", "/v1/bindings", "/v1/whoami", "/v1/can-i?operation=claim", "/v1/can-i"} {
		check(get, "GET", "")
	}
	check("/v1/workloads/{id=web}", "PUT", file, "application/yaml")
	check("/v1/workloads/{id=two}", "PUT", "id: two\nimage: x\n", "application/yaml")
	check("/v1/workloads/{id=web}", "PUT", "id: web\nimag: x\n", "application/yaml")
	check("/v1/claims", "POST", `{"workload":"web","tenant":"carol"}`)
	check("/v1/claims", "POST", `{"workload":"web","tenant":"carol"}`)
	check("/v1/claims", "POST", `{"workload":7}`)
	b.Fail("claim", &claim.FailedError{Claim: claim.Claim{ID: "c"}, Step: "post_claim", Err: &hooks.Error{Run: b.Attempts[0]}})
	check("/v1/claims", "POST", `{"workload":"web","tenant":"dora"}`)
	check("/v1/claims/{id=claim-alice}/sync", "POST", "")
	check("/v1/claims/{id=claim-bob}/sync", "POST", "")
	for _, memory := range []string{"/v1/claims/{id=claim-alice}/memory/{key}", "/v1/claims/{id=claim-bob}/memory/{key}"} { // a key has braces
		check(memory, "PUT", `{"a": 1}`)
		check(memory, "PUT", `{"a": 1}`)
		check(memory+"?if_version=7", "PUT", `{"a": 1}`)
		check(memory, "GET", "")
		check("/v1/claims/{id=claim-alice}/memory", "GET", "")
		check(memory, "DELETE", "")
	}
	file := "/v1/claims/{id=claim-alice}/files/{path}" // its name has braces
	check(file, "PUT", "content")
	check(file, "PUT", "content")
	check(file+"?stat=true", "GET", "")
	check(file+"?list=true", "GET", "")
	check("/v1/claims/{id=claim-alice}/files/{path}?archive=true&list=true", "GET", "")
	check("/v1/claims/{id=claim-bob}/files/{path}", "DELETE", "")
	check("/v1/claims/{id=claim-carol}/release", "POST", "")
	check("/v1/pools/{workload}/scale", "POST", `{"min_idle":1}`)
	check("/v1/pools/{workload}/drain", "POST", "")
	check("/v1/containers/{id=box-1}", "DELETE", "")
	check("/v1/containers/{id=box-2}", "DELETE", "")
	check("/v1/workloads/{id=web}", "DELETE", "")
}

// checker makes a request and validates the response against its schema. {id=x}
// in a path is the parameter id with the value x.
func checker(t *testing.T, server *pipetest.Server, compiler *jsonschema.Compiler) func(path, method, body string, headers ...string) {
	return func(path, method, body string, headers ...string) {
		t.Helper()
		template, query := path, ""
		path = strings.NewReplacer("{workload}", "web").Replace(path)
		path, query, _ = strings.Cut(path, "?")
		template, _, _ = strings.Cut(template, "?")
		for {
			begin := strings.Index(path, "{id=")
			if begin < 0 {
				break
			}
			end := begin + strings.Index(path[begin:], "}")
			value := path[begin+4 : end]
			template = strings.Replace(template, path[begin:end+1], "{id}", 1)
			path = path[:begin] + value + path[end+1:]
		}
		a := request(t, server, method+" "+path+"?"+query, body, headers...)
		status := strconv.Itoa(a.status)
		contentType := "application~1json"
		if a.status >= 400 {
			contentType = "application~1problem+json"
		}
		pointer := "/paths/" + strings.ReplaceAll(template, "/", "~1") + "/" + strings.ToLower(method) +
			"/responses/" + status + "/content/" + contentType + "/schema"
		// In a fragment braces are escaped.
		schema, err := compiler.Compile("mem:///openapi.json#" + (&url.URL{Fragment: pointer}).EscapedFragment())
		require.NoError(t, err, "%s %s answered %d", method, path, a.status)
		got, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(a.text)))
		require.NoError(t, err)
		require.NoError(t, schema.Validate(got), a.text)
	}
}
