package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/pipetest"
	"github.com/hostler/hostler/quota"
)

// A tenant whose claim is refused sees the reason, and neither how many claims others
// have nor what the engine answered.
func TestRefusedClaimShowsNothingOfOthers(t *testing.T) {
	keys := newRealKeys(t)
	b := newTestBackend()
	server := startServer(t, b, keys.use)
	token := request(t, server, "POST /v1/tokens", `{}`, by(keys.alice)).body["token"].(string)
	none := &claim.UnavailableError{Workload: "web", Reason: claim.FillFailing, Detail: "container creation failed: 4711 images"}
	exceeded := func(level quota.Level, name string) error {
		s := quota.Scope{Level: level, Name: name}
		return fmt.Errorf("reserve: %w", &quota.ExceededError{Scope: s, Kind: quota.Claims, Limit: 4711, Current: 4711})
	}
	for name, c := range map[string]struct {
		err     error
		bearer  string
		isShown bool
		status  int
	}{
		"pool":                      {none, keys.alice, false, 503},
		"pool, operator":            {none, keys.operator, true, 503},
		"workload":                  {exceeded(quota.Workload, "web"), keys.alice, false, 429},
		"workload, operator":        {exceeded(quota.Workload, "web"), keys.operator, true, 429},
		"the tenant's own":          {exceeded(quota.Tenant, "alice"), keys.alice, true, 429},
		"the key's own":             {exceeded(quota.Key, "key:alice"), keys.alice, true, 429},
		"that of the token's maker": {exceeded(quota.Key, "key:alice"), token, false, 429},
		"the token's tenant":        {exceeded(quota.Tenant, "alice"), token, true, 429},
	} {
		t.Run(name, func(t *testing.T) {
			b.Fail("claim", c.err)
			got := request(t, server, "POST /v1/claims", `{"workload":"web","tenant":"alice"}`, by(c.bearer))
			require.Equal(t, c.status, got.status, got.text)
			if c.isShown {
				require.Contains(t, got.text, "4711")
			} else {
				require.NotContains(t, got.text, "4711")
			}
		})
	}
	require.Equal(t, 200, request(t, server, "GET /v1/quotas/key/alice", "", by(keys.alice)).status)
	require.Equal(t, 403, request(t, server, "GET /v1/quotas/key/alice", "", by(token)).status, "its maker acts for others, too")
	require.Equal(t, 200, request(t, server, "GET /v1/quotas/tenant/alice", "", by(token)).status)
}

// A credential that uses too many connections is refused. A token counts for its
// maker, and for itself.
func TestConnectionsInUse(t *testing.T) {
	keys := newRealKeys(t)
	o := newTestBackend().Options()
	keys.use(&o)
	var actors [][]string
	handler := api.New(o)
	server := pipetest.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(api.WithAuthenticated(r.Context(), func(of ...string) bool {
			actors = append(actors, of)
			return len(actors) < 3
		})))
	}))
	token := request(t, server, "POST /v1/tokens", `{}`, by(keys.alice)).body["token"].(string)
	require.Equal(t, 401, request(t, server, "GET /v1/claims", "", by("x")).status)
	require.Equal(t, 200, request(t, server, "GET /v1/claims", "", by(token)).status)
	refused := request(t, server, "GET /v1/claims", "", by(token))
	ofToken := []string{"key:alice", "token:key:alice#alice"}
	require.Equal(t, "429 too_many_requests", fmt.Sprint(refused.status, " ", refused.body["code"]))
	require.Equal(t, [][]string{{"key:alice"}, ofToken, ofToken}, actors)
}
