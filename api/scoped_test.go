package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/memory"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/dbtest"
	"github.com/hostler/hostler/wait"
	"github.com/hostler/hostler/workload"
)

// The names of embedded fields that are not those of methods.
type (
	anyDeliveries = api.Deliveries
	anyContainers = api.Containers
)

// storedDeliveries and storedContainers read from a database.
type storedDeliveries struct {
	anyDeliveries
	db *store.DB
}

func (s storedDeliveries) Delivery(ctx context.Context, id string) (delivery.Delivery, error) {
	return s.db.Delivery(ctx, id)
}

func (s storedDeliveries) Deliveries(ctx context.Context, f delivery.Filter) ([]delivery.Delivery, error) {
	return s.db.Deliveries(ctx, f)
}

type storedContainers struct {
	anyContainers
	db *store.DB
}

func (s storedContainers) Container(ctx context.Context, id string) (pool.Container, error) {
	return s.db.Container(ctx, id)
}

func (s storedContainers) Containers(ctx context.Context, f pool.ContainerFilter) ([]pool.Container, error) {
	return s.db.Containers(ctx, f)
}

// The name of the other tenant in two worlds that are the same otherwise. All that it
// has contains the name: ids, outputs, data and errors.
const (
	markA = "bobMARKone"
	markB = "bobMARKtwo"
)

// openWorld returns an API of a database with the things of alice and of a tenant with
// the name. Streams end at once.
func openWorld(tb testing.TB, mark string) http.Handler {
	tb.Helper()
	db := dbtest.Open(tb)
	log := slog.New(slog.DiscardHandler)
	b := newTestBackend()
	for _, id := range []string{"web", mark} {
		r := pool.Record{ID: id, Revision: "r", Source: []byte("id: " + id + "\nimage: nginx\n"), MaxSize: 1 << 20}
		require.NoError(tb, db.PutWorkload(tb.Context(), r))
		b.Records[id] = r
	}
	addTenant(tb, db, "alice", "web")
	addTenant(tb, db, mark, "web")
	addTenant(tb, db, mark, mark)
	addRecycled(tb, db, mark)
	var err error
	b.Claims, err = db.Claims(tb.Context(), claim.Filter{States: claim.States()})
	require.NoError(tb, err)
	o := b.Options()
	keys := newTestAuth()
	// The other tenant's workload is not for alice.
	keys.principals["tenant"].Grants[0].Workloads = []activity.Pattern{activity.Exactly("web")}
	o.Auth, o.Claims, o.Runs, o.Events = keys, db, db, db
	o.Deliveries, o.Containers = storedDeliveries{o.Deliveries, db}, storedContainers{o.Containers, db}
	o.Memory = memory.New(db, log)
	o.Waits = wait.New(db, wait.Options{Claims: db, Workloads: noHooks{}, Log: log})
	o.Access, _ = o.Files.(*access.Service)
	a := api.New(o)
	a.Close()
	for _, c := range []string{"claim-alice-web", "claim-" + mark + "-web"} {
		send(a, "operator", http.MethodPut, "/v1/claims/"+c+"/memory/key", "", `"`+c+`"`)
		send(a, "operator", http.MethodPut, "/v1/claims/"+c+"/memory/"+c, "level=tenant", `"`+c+`"`)
	}
	return a
}

// addTenant adds a thing of each kind.
func addTenant(tb testing.TB, db *store.DB, name, id string) {
	tb.Helper()
	ctx, of := tb.Context(), name+"-"+id
	require.NoError(tb, db.AddContainer(ctx, pool.Container{ID: "box-" + of, Workload: id, Revision: "r"}, 1<<20))
	_, err := db.UpdateContainer(ctx, pool.Ready("box-"+of, func(*pool.Container) {}))
	require.NoError(tb, err)
	c, err := db.Reserve(ctx, claim.Reservation{Claim: "claim-" + of, Workload: id, Tenant: name, Revision: "r"})
	require.NoError(tb, err)
	c, err = db.UpdateClaim(ctx, claim.Activate(c.ID, claim.Fresh, nil))
	require.NoError(tb, err)
	run := hooks.Run{
		ID: "run-" + of, Attempt: 1, Point: hooks.PostClaim, Hook: "hook-" + of, Kind: hooks.KindCommand, Command: []string{of}, Workload: id,
		Container: c.Container, Claim: c.ID, Tenant: name, StartedAt: time.Unix(1700000000, 0),
	}
	require.NoError(tb, db.RunStarted(ctx, run))
	run.State, run.Stdout, run.Error = hooks.Failed, runtime.Output{Head: of, Total: int64(len(of))}, of
	require.NoError(tb, db.RunEnded(ctx, run))
	_, _, err = db.StartWait(ctx, wait.Wait{ID: "wait-" + of, Claim: c.ID, Name: of, Type: "review", TimeoutMS: 1000, Context: json.RawMessage(`{"task":"` + of + `"}`)})
	require.NoError(tb, err)
	require.NoError(tb, db.AddDeliveries(ctx, []delivery.Change{{Add: delivery.Delivery{
		ID: "delivery-" + of, Workload: id, Hook: of, Lane: c.Container, Seq: 1, Replay: true, Event: activity.HookFailed, Container: c.Container, Claim: c.ID, Tenant: name,
	}}}))
	require.NoError(tb, db.Append(ctx,
		activity.Event{Type: activity.PoolWarning, Workload: id, Message: of},
		activity.Event{Type: "agent.x", Workload: id, Container: c.Container, Claim: c.ID, Tenant: name, Message: of, Data: json.RawMessage(`{"x":"` + of + `"}`), Untrusted: true, Priority: new(5)},
	))
}

// addRecycled has the other tenant claim a container that is not wiped of alice's data
// yet: until then its record has alice.
func addRecycled(tb testing.TB, db *store.DB, mark string) {
	tb.Helper()
	ctx, k := tb.Context(), "box-"+mark+"-used"
	require.NoError(tb, db.AddContainer(ctx, pool.Container{ID: k, Workload: mark, Revision: "r"}, 1<<20))
	_, err := db.UpdateContainer(ctx, pool.Ready(k, func(c *pool.Container) { c.Tenant = "alice" }))
	require.NoError(tb, err)
	last, err := db.LastSeq(ctx)
	require.NoError(tb, err)
	require.Positive(tb, last)
	_, err = db.UpdateClaim(ctx, claim.BeginRelease("claim-"+mark+"-"+mark, mark, false))
	require.NoError(tb, err)
	m := claim.Finish("claim-"+mark+"-"+mark, activity.ClaimReleasedData{Reason: mark})
	back := pool.BeginDestroy("", []pool.State{pool.Claimed}, mark)
	m.Container = &back
	_, err = db.UpdateClaim(ctx, m)
	require.NoError(tb, err)
	c, err := db.Reserve(ctx, claim.Reservation{Claim: "claim-" + mark + "-used", Workload: mark, Tenant: mark, Revision: "r", Reuse: workload.ReuseWipe})
	require.NoError(tb, err)
	require.Equal(tb, k, c.Container)
	_, err = db.UpdateContainer(ctx, pool.Note(k, pool.Claimed, func(c *pool.Container) { c.Health = pool.Unhealthy },
		activity.Event{Type: activity.ContainerUnhealthy, Message: mark}))
	require.NoError(tb, err)
}

// send sends a request, of any form.
func send(h http.Handler, key, method, path, query, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, "http://localhost/", strings.NewReader(body))
	r.URL = &url.URL{Scheme: "http", Host: "localhost", Path: path, RawQuery: query}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-API-Key", key)
	r.Header.Set("X-Request-Id", "r")
	return serve(h, r)
}

// worlds are the same but for what the other tenant has.
type worlds [2]http.Handler

func openWorlds(tb testing.TB) worlds {
	tb.Helper()
	return worlds{openWorld(tb, markA), openWorld(tb, markB)}
}

// varying are times and random ids. The worlds have other ones of alice's.
var varying = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z|[0-9a-f]{8}-[0-9a-f-]{27}`)

// requireSame requires that alice gets the same response in both worlds. So it does
// not depend on anything of the other tenant: neither on what that has, nor on
// whether it has it.
func (w worlds) requireSame(tb testing.TB, method, path, query, body string) {
	tb.Helper()
	var texts [2]string
	for i, h := range w {
		rec := send(h, "tenant", method, path, query, body)
		rec.Header().Del("Last-Modified") // the worlds are not of the same second
		texts[i] = fmt.Sprint(rec.Code, rec.Header(), varying.ReplaceAllString(rec.Body.String(), "-"))
		if rec.Code == http.StatusUnprocessableEntity { // it has several errors in any order
			all := []byte(texts[i])
			slices.Sort(all)
			texts[i] = string(all)
		}
		require.NotEqual(tb, http.StatusInternalServerError, rec.Code, "%s %s?%s %q: %s", method, path, query, body, rec.Body)
	}
	require.Equal(tb, texts[0], texts[1], "%s %s?%s %q", method, path, query, body)
}

// scopedLists are the lists and streams, scopedFilters their parameters.
var (
	scopedLists   = []string{"claims", "waits", "hook-runs", "events", "events/stream", "deliveries", "containers", "workloads", "pools"}
	scopedFilters = map[string][]string{
		"claims":        {"tenant", "workload", "container", "state", "id", "order", "after", "limit"},
		"waits":         {"tenant", "workload", "claim", "state", "id", "order", "after", "limit"},
		"hook-runs":     {"tenant", "workload", "claim", "container", "point", "state", "output", "id", "order", "after", "limit"},
		"events":        {"tenant", "workload", "claim", "container", "point", "type", "since", "follow", "untrusted", "min_priority", "run", "last", "after", "limit"},
		"events/stream": {"tenant", "workload", "claim", "container", "point", "type", "since", "untrusted", "min_priority", "run", "after"},
		"deliveries":    {"tenant", "workload", "hook", "id", "order", "after"},
		"containers":    {"tenant", "workload", "id", "order", "after"},
		"workloads":     {"after", "limit"},
		"pools":         {"after", "limit"},
	}
	scopedThings = []struct{ path, kind string }{
		{"/v1/claims/%s", "claim-"}, {"/v1/waits/%s", "wait-"}, {"/v1/hook-runs/%s", "run-"}, {"/v1/deliveries/%s", "delivery-"}, {"/v1/containers/%s", "box-"},
		{"/v1/workloads/%s", ""}, {"/v1/pools/%s", ""}, {"/v1/workloads/%s/snapshots", ""}, {"/v1/claims/%s/memory", "claim-"}, {"/v1/claims/%s/memory/key", "claim-"},
		{"/v1/claims/%s/files/etc", "claim-"}, {"/v1/claims/%s/ports/9/x", "claim-"}, {"/v1/claims/claim-alice-web/memory/%s", "claim-"},
	}
)

// scopedValues are what the parameters are set to: what the other tenant has in one of
// the worlds, and what is like it.
func scopedValues() []string {
	values := []string{
		"", "alice", "web", "*", "%", "_", "'", `"`, "0", "1", "5", "14", "999999", "-1", "true", "false", "10m", "9999h", "2000-01-01T00:00:00Z", "a\u0308", "\U0001f600", "é",
		"hook", "hook.*", "agent", "agent.x", "container", "claim", "wait", "log.ended", "active", "released", "failed", "claimed", "post_claim", "post_create", "desc",
		"claim-alice-web", "run-alice-web", "wait-alice-web", "box-alice-web", "claim-", "run-", "wait-b", "box-", strings.Repeat("x", 129),
	}
	for _, kind := range []string{"", "claim-", "run-", "wait-", "box-", "delivery-", "hook-"} {
		for _, end := range []string{"", "-web", "-" + markA, "-used", "*", "%"} {
			values = append(values, kind+markA+end)
		}
		values = append(values, strings.ToUpper(kind+markA), strings.ToLower(kind+markA+"-web"), kind+markA[:6], kind+"bobMARKonf", kind+"bobMARKomz")
	}
	return values
}

// The responses to a tenant do not depend on another one, in any list with any
// filters, any stream, of any thing, and in any error.
func TestTenantSeesOnlyItsOwn(t *testing.T) {
	w := openWorlds(t)
	requireMarked(t, w)
	values := scopedValues()
	for _, v := range values {
		for _, list := range scopedLists {
			for _, name := range scopedFilters[list] {
				w.requireSame(t, http.MethodGet, "/v1/"+list, url.Values{name: {v}}.Encode(), "")
			}
		}
		for _, thing := range scopedThings {
			w.requireSame(t, http.MethodGet, fmt.Sprintf(thing.path, v), "", "")
			w.requireSame(t, http.MethodGet, fmt.Sprintf(thing.path, v), url.Values{"tenant": {v}}.Encode(), "")
		}
		w.requireBodies(t, v)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		query, list := url.Values{}, scopedLists[random.IntN(len(scopedLists))]
		for range 1 + random.IntN(4) {
			query.Set(scopedFilters[list][random.IntN(len(scopedFilters[list]))], values[random.IntN(len(values))])
		}
		w.requireSame(t, http.MethodGet, "/v1/"+list, query.Encode(), "")
	}
}

// requireMarked requires that the worlds are as they should be: an operator sees the
// other tenant's things, and alice her own.
func requireMarked(t *testing.T, w worlds) {
	t.Helper()
	for _, list := range []string{"claims", "waits", "hook-runs", "events", "deliveries", "containers"} {
		require.Contains(t, send(w[0], "operator", http.MethodGet, "/v1/"+list, "limit=1000", "").Body.String(), markA, list)
		require.Contains(t, send(w[1], "operator", http.MethodGet, "/v1/"+list, "limit=1000", "").Body.String(), markB, list)
	}
	for _, list := range []string{"claims", "waits", "hook-runs", "events"} {
		text := send(w[0], "tenant", http.MethodGet, "/v1/"+list, "limit=1000", "").Body.String()
		require.Contains(t, text, "alice-web", list)
		require.NotContains(t, text, "MARK", list)
	}
}

// requireBodies sends requests that name a thing in their bodies.
func (w worlds) requireBodies(tb testing.TB, v string) {
	tb.Helper()
	text, err := json.Marshal(v)
	require.NoError(tb, err)
	for route, body := range map[string]string{
		"/v1/events": `{"claim":%s,"type":"agent.x"}`,
		"/v1/claims": `{"workload":"web","tenant":%s}`,
		"/v1/workloads/web/snapshots/snap-1/restore":   `{"tenant":%s}`,
		"/v1/claims/" + url.PathEscape(v) + "/release": `{}`,
		"/v1/claims/" + url.PathEscape(v) + "/waits":   `{"type":"x","timeout":"1s"}`,
		"/v1/claims/" + url.PathEscape(v) + "/signals": `{"name":"x"}`,
		"/v1/claims/claim-alice-web/signals":           `{"name":%s}`,
	} {
		if strings.Contains(v, "alice") && strings.Contains(route, "release") {
			continue // it would end what the others need
		}
		w.requireSame(tb, http.MethodPost, route, "", strings.Replace(body, "%s", string(text), 1))
	}
	w.requireSame(tb, http.MethodPost, "/v1/claims", "", `{"workload":`+string(text)+`}`)
}

// FuzzTenantSeesOnlyItsOwn is TestTenantSeesOnlyItsOwn for any text, query and body.
func FuzzTenantSeesOnlyItsOwn(f *testing.F) {
	for i, v := range scopedValues() {
		f.Add(v, scopedFilters["events"][i%len(scopedFilters["events"])]+"="+url.QueryEscape(v), `{"claim":"claim-`+markA+`-web","type":"agent.x"}`)
	}
	f.Add("claim-"+markA+"-web/../claim-alice-web", "tenant="+markA+"&tenant=alice", `{"tenant":"`+markA+`","workload":"web"}`)
	f.Add("..", "tenant=alice;tenant="+markA, `{"tenant":"alice","tenant":"`+markA+`","workload":"web"}`)
	f.Add("%2e", "%74enant="+markA+"&limit=1&after="+markA, `{"Tenant":"`+markA+`","workload":"`+markA+`"}`)
	w := openWorlds(f)
	f.Fuzz(func(t *testing.T, text, query, body string) {
		for _, list := range scopedLists {
			w.requireSame(t, http.MethodGet, "/v1/"+list, query, "")
		}
		for _, thing := range scopedThings {
			w.requireSame(t, http.MethodGet, fmt.Sprintf(thing.path, text), query, "")
		}
		for _, path := range []string{"/v1/events", "/v1/claims", "/v1/workloads/web/snapshots/snap-1/restore", "/v1/claims/" + text + "/waits", "/v1/claims/" + text + "/signals"} {
			w.requireSame(t, http.MethodPost, path, query, body)
		}
	})
}
