package api_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/memory"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/dbtest"
	"github.com/hostler/hostler/wait"
	"github.com/hostler/hostler/workload"
)

// noHooks has workloads without hooks.
type noHooks struct{}

func (noHooks) Revision(context.Context, string, string) (*workload.Workload, pool.Record, error) {
	return &workload.Workload{ID: "w"}, pool.Record{}, nil
}

// openTenants returns an API whose memory and waits are kept in a database, and a
// function that adds an active claim. The database is the one at
// HOSTLER_FUZZ_DATABASE, else a new file.
func openTenants(tb testing.TB) (handler http.Handler, add func(testing.TB) claim.Claim) {
	tb.Helper()
	dsn := os.Getenv("HOSTLER_FUZZ_DATABASE")
	if dsn == "" {
		dsn = dbtest.Path(tb)
	}
	db, err := store.Open(tb.Context(), dsn)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	require.NoError(tb, db.PutWorkload(tb.Context(), pool.Record{ID: "w", Revision: "r", Source: []byte("id: w\nimage: box\n"), MaxSize: 1 << 20, SharedMemory: true}))
	log := slog.New(slog.DiscardHandler)
	o := newTestBackend().Options()
	o.Memory = memory.New(db, log)
	o.Waits = wait.New(db, wait.Options{Claims: db, Workloads: noHooks{}, Log: log})
	return api.New(o), func(tb testing.TB) claim.Claim {
		tb.Helper()
		ctx, id := tb.Context(), uuid.NewString()
		require.NoError(tb, db.AddContainer(ctx, pool.Container{ID: id, Workload: "w", Revision: "r"}, 1<<20))
		_, err := db.UpdateContainer(ctx, pool.Ready(id, func(*pool.Container) {}))
		require.NoError(tb, err)
		c, err := db.Reserve(ctx, claim.Reservation{Claim: uuid.NewString(), Workload: "w", Tenant: uuid.NewString(), Revision: "r"})
		require.NoError(tb, err)
		c, err = db.UpdateClaim(ctx, claim.Activate(c.ID, claim.Fresh, nil))
		require.NoError(tb, err)
		return c
	}
}

// FuzzTenants: no request about memory, waits and signals makes the server fail,
// and every response is JSON that a client can decode.
func FuzzTenants(f *testing.F) {
	for _, body := range []string{
		`{"type":"review","timeout":"1s"}`, `{"type":"review","timeout":1000,"name":"a","request_id":"r","context":{"task":1}}`, `{"data":{"a":"\u0000\ud800"}}`, `{"name":"\u0000"}`, `null`, `[]`, ``,
		`{"timeout":1e308,"type":"x"}`, `{"timeout":"-1s","type":"x"}`, `{"timeout":"9999999999h","type":"x"}`, `{"type":"x","timeout":"1s","on_timeout":"\u0000"}`,
		strings.Repeat("[", 9000) + strings.Repeat("]", 9000), `{"data":` + strings.Repeat("[", 9900) + strings.Repeat("]", 9900) + `}`, "\xff", `1e400`, `{"a":1,"a":2}`, `"` + "\u009b\u202e" + `"`,
	} {
		f.Add("k", "level=tenant", body, `"1"`)
		f.Add("%", "wait=0s&if_version=0&prefix=_%25&after=x", body, "*")
		f.Add("a/b", "level=workload&limit=1", body, "")
	}
	f.Add("k", "", `{"type":"review","timeout":"1s","context":`+strings.Repeat("[", 9999)+strings.Repeat("]", 9999)+`}`, "")
	f.Add("é\u0301", "if_version=9223372036854775808", "1", `W/"9223372036854775807"`)
	f.Add(strings.Repeat("\U0001f600", 200), "state=waiting&after=%F4%8F%BF%BF", "1", "")
	handler, add := openTenants(f)
	c := add(f)
	n := 0
	f.Fuzz(func(t *testing.T, text, query, body, tag string) {
		if n++; n%20 == 0 {
			c = add(t) // the limits of the last one are reached
		}
		claims := "/v1/claims/" + c.ID
		for _, route := range []string{
			"PUT " + claims + "/memory/" + text, "GET " + claims + "/memory/" + text, "GET " + claims + "/memory", "DELETE " + claims + "/memory/" + text,
			"POST " + claims + "/waits", "POST " + claims + "/signals", "GET /v1/waits", "GET /v1/waits/" + text,
			"POST /v1/claims/" + text + "/waits", "POST /v1/claims/" + text + "/signals",
		} {
			method, path, _ := strings.Cut(route, " ")
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			r := httptest.NewRequestWithContext(ctx, method, "http://localhost/", strings.NewReader(body))
			r.URL = &url.URL{Scheme: "http", Host: "localhost", Path: path, RawQuery: query}
			r.Header.Set("Content-Type", "application/json")
			if tag != "" {
				r.Header.Set("If-Match", tag)
			}
			rec := serve(handler, r)
			cancel()
			require.True(t, rec.Code < 500 || rec.Code == 504, "%s?%s %q: %d %s", route, query, body, rec.Code, rec.Body)
			if rec.Body.Len() > 0 {
				require.True(t, json.Valid(rec.Body.Bytes()), "%s: %d %s", route, rec.Code, rec.Body)
			}
		}
	})
}
