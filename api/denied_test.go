package api_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/audit"
)

// denials keeps what was refused.
type denials struct {
	mu  sync.Mutex
	all []audit.Denial
}

func (d *denials) Denied(denial audit.Denial) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, denial)
}

// take returns what was refused since the last call.
func (d *denials) take() []audit.Denial {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.all
	d.all = nil
	return all
}

// one accepts one credential.
type one struct{ *auth.Principal }

func (one) IsOpen() bool { return false }

func (o one) Authenticate(_ context.Context, r auth.Request) (*auth.Principal, error) {
	if r.Bearer != key1 {
		return nil, auth.ErrInvalidCredential
	}
	return o.Principal, nil
}

func (one) IsCredential(context.Context, string) bool { return false }

func (one) Follow(*auth.Principal, func(error)) (stop func()) { return func() {} }

// Each request that is refused for lack of a permission is recorded, with who sent it
// and why, and no other one.
func TestDenialsAreRecorded(t *testing.T) {
	var d denials
	p := &auth.Principal{Actor: "key:ann", Name: "ann", Grants: []auth.Grant{{
		Role: auth.Tenant, Tenants: []activity.Pattern{activity.Exactly("ann")},
	}}}
	b := newTestBackend()
	open := startServer(t, b)
	other := request(t, open, "POST /v1/claims", `{"workload":"web","tenant":"bob"}`)
	require.Equal(t, 201, other.status, other.text)
	server := startServer(t, b, func(o *api.Options) { o.Auth, o.Denials = one{p}, &d })
	for _, test := range []struct {
		route, body, key string
		status           int
		want             audit.Denial
	}{
		{"GET /v1/claims", "", key2, 401, audit.Denial{Reason: "credential"}},
		{"GET /v1/doctor", "", key1, 403, audit.Denial{Operation: "doctor", Reason: "role"}},
		{"GET /v1/claims/" + other.body["id"].(string), "", key1, 404, audit.Denial{Operation: "get-claim", Reason: "scope"}},
		{"GET /v1/claims?tenant=bob", "", key1, 403, audit.Denial{Operation: "list-claims", Reason: "scope"}},
		{"POST /v1/claims", `{"workload":"web","tenant":"bob"}`, key1, 403, audit.Denial{Operation: "claim", Reason: "scope"}},
		{"POST /v1/tokens", `{"tenant":"bob"}`, key1, 403, audit.Denial{Operation: "create-token", Reason: "scope"}},
		{"POST /v1/tokens", `{"claim":"` + other.body["id"].(string) + `"}`, key1, 404, audit.Denial{Operation: "create-token", Reason: "scope"}},
		{"POST /v1/tokens", `{"claim":"none"}`, key1, 404, audit.Denial{}},
		{"GET /v1/claims/none", "", key1, 404, audit.Denial{}},
		{"GET /v1/claims", "", key1, 200, audit.Denial{}},
		{"GET /v2", "", key1, 404, audit.Denial{}},
	} {
		a := request(t, server, test.route, test.body, "Authorization: Bearer "+test.key, "X-Request-Id: r-1")
		require.Equal(t, test.status, a.status, test.route+a.text)
		if test.want.Reason == "" {
			require.Empty(t, d.take(), test.route)
			continue
		}
		test.want.Actor = activity.Actor{Name: "key:ann", Address: "127.0.0.1", Request: "r-1"}
		if test.status == 401 {
			test.want.Actor.Name = "anonymous"
		}
		require.Equal(t, []audit.Denial{test.want}, d.take(), test.route)
	}
}
