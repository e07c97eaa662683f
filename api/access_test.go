package api_test

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/wait"
)

var update = flag.Bool("update", false, "rewrite docs/access.md")

const accessDocument = "../docs/access.md"

// The things of the table have ids that end in whose they are. What is missing has an
// id as long as theirs.
const (
	own     = "mine0" // of alice, in web
	foreign = "them0" // of bob, in web
	elseID  = "else0" // of alice, in the workload else
	missing = "none0"
)

// accessColumn is who sends the requests of a column, and whose things they act on.
type accessColumn struct{ title, key, thing string }

var accessColumns = []accessColumn{
	{"no credential", "", own},
	{"tenant: its own", "tenant", own},
	{"tenant: others'", "tenant", foreign},
	{"author: its own", "author", own},
	{"author: others'", "author", elseID},
	{"viewer", "viewer", own},
	{"operator", "operator", own},
	{"metrics", "metrics", own},
}

// seedAccess puts a thing of each kind for each owner into a backend.
func seedAccess(b *apitest.Backend) {
	b.Records, b.Pools = map[string]pool.Record{}, map[string]pool.Status{}
	b.Containers, b.Claims, b.Attempts, b.Waits, b.Deliveries, b.Log = nil, nil, nil, nil, nil, nil
	for _, id := range []string{"web", "else"} {
		b.Records[id] = pool.Record{ID: id, Revision: "r", Source: []byte("id: " + id + "\nimage: nginx\n")}
		b.Pools[id] = pool.Status{Workload: id}
	}
	for _, o := range []struct{ thing, tenant, workload string }{{own, "alice", "web"}, {foreign, "bob", "web"}, {elseID, "alice", "else"}} {
		k, c := "box-"+o.thing, "claim-"+o.thing
		b.Containers = append(b.Containers, pool.Container{ID: k, Workload: o.workload, Tenant: o.tenant, Claim: c, State: pool.Claimed})
		b.Claims = append(b.Claims, claim.Claim{ID: c, Workload: o.workload, Tenant: o.tenant, Container: k, State: claim.Active})
		b.Attempts = append(b.Attempts, hooks.Run{ID: "run-" + o.thing, Attempt: 1, Workload: o.workload, Tenant: o.tenant, Container: k, Claim: c, State: hooks.Failed})
		b.Waits = append(b.Waits, wait.Wait{ID: "wait-" + o.thing, Workload: o.workload, Tenant: o.tenant, Claim: c, State: wait.Aborted})
		b.Deliveries = append(b.Deliveries, delivery.Delivery{ID: "delivery-" + o.thing, Hook: "h", Workload: o.workload, Tenant: o.tenant, Claim: c})
		b.Append(activity.Event{Type: activity.ClaimActivated, Workload: o.workload, Tenant: o.tenant, Claim: c, Message: o.thing})
	}
}

// accessServer is an API whose streams end at once, and its backend.
func accessServer(t *testing.T) (*apitest.Backend, http.Handler) {
	t.Helper()
	b := apitest.New()
	o := b.Options()
	o.Auth, o.Metrics = newTestAuth(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "up 1\n") })
	o.Access, _ = o.Files.(*access.Service)
	a := api.New(o)
	a.Close()
	return b, a
}

// operation is a route as the document has it.
type operation struct{ id, method, path string }

// operations returns all routes, in the order of their paths.
func operations(t *testing.T, h http.Handler) (all []operation) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/openapi.json", nil)
	r.Header.Set("X-API-Key", "operator")
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		}
	}
	require.NoError(t, json.Unmarshal(serve(h, r).Body.Bytes(), &doc))
	for path, methods := range doc.Paths {
		for method, o := range methods {
			all = append(all, operation{o.OperationID, strings.ToUpper(method), path})
		}
	}
	slices.SortFunc(all, func(a, b operation) int { return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.method, b.method)) })
	return all
}

// tenantOf and workloadOf are those of things.
var (
	tenantOf   = map[string]string{own: "alice", foreign: "bob", elseID: "alice", missing: "nob"}
	workloadOf = map[string]string{own: "web", foreign: "web", elseID: "else", missing: "none"}
)

// idOf returns the beginning of the ids below a path.
var idOf = []struct{ path, kind string }{
	{"/v1/claims/", "claim-"}, {"/v1/containers/", "box-"}, {"/v1/hook-runs/", "run-"}, {"/v1/waits/", "wait-"}, {"/v1/deliveries/", "delivery-"},
}

// filtered are the lists that can be filtered by a tenant and a workload.
var filtered = []string{"list-claims", "list-containers", "list-runs", "list-waits", "list-deliveries", "events", "follow-events"}

// requestOf returns the request of an operation that acts on a thing. A route of a
// workload acts on that of the thing.
func requestOf(ctx context.Context, o operation, c accessColumn, thing string) *http.Request {
	id := workloadOf[thing]
	for _, row := range idOf {
		if strings.HasPrefix(o.path, row.path) {
			id = row.kind + thing
		}
	}
	path := regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllStringFunc(o.path, func(name string) string {
		switch name {
		case "{id}":
			return id
		case "{workload}":
			return workloadOf[thing]
		case "{port}":
			return "9"
		case "{level}":
			return "tenant"
		case "{name}":
			if strings.Contains(o.path, "{level}") {
				return tenantOf[thing]
			}
		}
		return "x"
	})
	query, body := "", ""
	filter := "tenant=" + tenantOf[thing]
	if c.key == "author" {
		filter = "workload=" + workloadOf[thing]
	}
	switch o.id {
	case "claim", "restore-snapshot":
		body = fmt.Sprintf(`{"workload":"web","tenant":%q}`, tenantOf[thing])
		if o.id == "restore-snapshot" {
			body = fmt.Sprintf(`{"tenant":%q}`, tenantOf[thing])
		}
	case "publish-event":
		body = fmt.Sprintf(`{"claim":%q,"type":"agent.x"}`, "claim-"+thing)
	case "create-token":
		body = fmt.Sprintf(`{"tenant":%q}`, tenantOf[thing])
	case "create-key":
		body = `{"name":"x","role":"viewer"}`
	case "put-binding":
		body = `{"kind":"unix","subject":"1","role":"viewer"}`
	case "list-keys", "list-bindings", "list-quotas", "whoami":
	case "can-i":
		query = "?operation=claim&" + filter
	case "list-snapshots", "verify-snapshot", "export-snapshot", "import-snapshot":
		query = "?tenant=" + tenantOf[thing]
	default:
		if slices.Contains(filtered, o.id) {
			query = "?" + filter
		}
	}
	r := httptest.NewRequestWithContext(ctx, o.method, "http://localhost"+path+query, strings.NewReader(body))
	r.Header.Set("X-Request-Id", "r")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if o.id == "connect-port" {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "tcp")
	}
	if c.key != "" {
		r.Header.Set("X-API-Key", c.key)
	}
	return r
}

// notFoundOf are the codes of things that do not exist, or are others'.
var notFoundOf = []string{"claim_not_found", "container_not_found", "run_not_found", "wait_not_found", "delivery_not_found", "workload_not_found"}

// isRefused reports whether a response refuses a request.
func isRefused(rec *httptest.ResponseRecorder) bool {
	var p struct{ Code string }
	_ = json.Unmarshal(rec.Body.Bytes(), &p) // that of a HEAD has none
	switch rec.Code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return true
	case http.StatusNotFound:
		return slices.Contains(notFoundOf, p.Code)
	}
	return false
}

// Who may use which route: each cell is a real request. The table is that of the
// documentation, and has all routes. What is refused looks like what does not exist.
func TestAccessTable(t *testing.T) {
	b, h := accessServer(t)
	table := strings.Builder{}
	table.WriteString("| operation | request |")
	for _, c := range accessColumns {
		table.WriteString(" " + c.title + " |")
	}
	table.WriteString("\n|---|---|" + strings.Repeat("---|", len(accessColumns)) + "\n")
	cells := 0
	for _, o := range operations(t, h) {
		fmt.Fprintf(&table, "| `%s` | `%s %s` |", o.id, o.method, o.path)
		for _, c := range accessColumns {
			cells++
			table.WriteString(" " + accessCell(t, b, h, o, c) + " |")
		}
		table.WriteString("\n")
	}
	text := fmt.Sprintf("The table has %d cells, each of which a test sends as a request.\n\n%s", cells, table.String())
	old, err := os.ReadFile(accessDocument)
	require.NoError(t, err)
	introduction, generated, ok := strings.Cut(string(old), accessMark)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile(accessDocument, []byte(introduction+accessMark+text), 0o644))
		return
	}
	require.Equal(t, generated, text, "run go test ./api -run TestAccessTable -update, and look at the difference")
}

// accessMark precedes the generated part of the document.
const accessMark = "<!-- Generated by go test ./api -run TestAccessTable -update -->\n\n"

// accessCell sends the request of a cell and returns yes, or the status of the
// refusal. A list without the thing is own only.
func accessCell(t *testing.T, b *apitest.Backend, h http.Handler, o operation, c accessColumn) string {
	t.Helper()
	send := func(thing string) *httptest.ResponseRecorder {
		seedAccess(b)
		return serve(h, requestOf(t.Context(), o, c, thing))
	}
	rec := send(c.thing)
	isOthers := c.thing != own
	if isOthers && !isPublic(o) {
		requireHidden(t, o, c, rec, send(missing))
	}
	switch {
	case isRefused(rec):
		require.False(t, c.key == "operator", "%s is refused to operators: %s", o.id, rec.Body)
		return fmt.Sprint(rec.Code)
	case isOthers && !isPublic(o):
		// Only lists are left, which have nothing of others.
		require.Contains(t, []string{http.MethodGet}, o.method, "%s: %s", o.id, rec.Body)
		require.NotContains(t, o.path, "{", "%s: %s", o.id, rec.Body)
		require.Equal(t, http.StatusOK, rec.Code, "%s: %s", o.id, rec.Body)
		return "own only"
	}
	if c.key == "metrics" || c.key == "" {
		require.True(t, isPublic(o) || c.key != "" && o.id == "metrics", o.id)
	}
	if c.key == "viewer" {
		require.Equal(t, http.MethodGet, o.method, "%s changes something", o.id)
	}
	return "yes"
}

// isPublic reports whether an operation is for everyone with a credential, or without
// one, and has nothing of anyone.
func isPublic(o operation) bool {
	return slices.Contains([]string{"healthz", "readyz", "openapi", "whoami", "can-i"}, o.id)
}

// requireHidden requires that the response for a thing of others is that for one that
// does not exist.
func requireHidden(t *testing.T, o operation, c accessColumn, others, none *httptest.ResponseRecorder) {
	t.Helper()
	require.Equal(t, none.Code, others.Code, "%s %s: %s", o.id, c.title, others.Body)
	require.Equal(t, none.Header(), others.Header(), "%s %s", o.id, c.title)
	text := others.Body.String()
	if !isRefused(others) {
		require.NotContains(t, text, c.thing, "%s %s", o.id, c.title)
		if c.key == "author" {
			require.NotContains(t, text, `"`+workloadOf[c.thing]+`"`, "%s %s", o.id, c.title)
		}
	}
	for from, to := range map[string]string{c.thing: missing, tenantOf[c.thing]: tenantOf[missing], workloadOf[c.thing]: workloadOf[missing]} {
		if c.key == "author" || from != "web" && from != "alice" {
			text = strings.ReplaceAll(text, from, to)
		}
	}
	require.Equal(t, none.Body.String(), text, "%s %s", o.id, c.title)
}
