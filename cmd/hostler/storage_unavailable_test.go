package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/membership"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/postgrestest"
)

// A server whose database is unavailable, and a fenced server that has not
// noticed yet, answer 503 with Retry-After.
func TestStorageUnavailable(t *testing.T) {
	t.Parallel()
	target := postgrestest.Schema(t)
	proxy := postgrestest.NewProxy(t, target)
	for name, c := range map[string]struct {
		dsn     string
		disrupt func(self membership.Replica)
		want    error
	}{
		"unavailable": {proxy.URL(), func(membership.Replica) { proxy.Cut() }, store.ErrUnavailable},
		"fenced": {target, func(self membership.Replica) {
			postgrestest.Exec(t, target, fmt.Sprintf(`UPDATE replicas SET epoch = epoch + 1 WHERE id = '%s'`, self.ID))
		}, membership.ErrFenced},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := store.Open(t.Context(), c.dsn)
			require.NoError(t, err)
			defer db.Close() //nolint:errcheck // the database may be unavailable
			self, err := db.Register(t.Context(), "here")
			require.NoError(t, err)
			log := slog.New(slog.NewTextHandler(io.Discard, nil))
			requests, err := serveConfig{}.requests()
			require.NoError(t, err)
			s := assemble(db, closableRuntime{fake.New()}, snapshot.NewSinks(snapshot.PathPolicy{}, nil), requests, nil, 0, log)
			served := httptest.NewServer(api.New(s.apiOptions(t.TempDir())))
			defer served.Close()
			apply := func(image string) (code int, errOut string) {
				code, _, errOut = hostler(t, "id: w\nimage: "+image+"\n", "apply", "-f", "-", "--server", served.URL)
				return code, errOut
			}
			code, errOut := apply("old")
			require.Equal(t, exitOK, code, errOut)
			c.disrupt(self)
			code, errOut = apply("new")
			require.Equal(t, exitUnavailable, code, errOut)
			require.Contains(t, errOut, c.want.Error())

			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, served.URL+"/v1/pools/w/drain", nil)
			require.NoError(t, err)
			answer, err := served.Client().Do(r)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
			require.Equal(t, "1", answer.Header.Get("Retry-After"))
		})
	}
}
