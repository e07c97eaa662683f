package api_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// A record of a running attempt has what it has printed so far, for who may see the
// output of hooks. The container is asked for one run at a time, and for no other
// reader.
func TestLiveOutput(t *testing.T) {
	a, b := newTestAuth(), apitest.New()
	seedAccess(b)
	for i := range b.Attempts {
		b.Attempts[i].State = hooks.Running
	}
	asked := 0
	server := startServer(t, b, func(o *api.Options) {
		o.Auth = a
		o.LiveOutput = func(_ context.Context, r hooks.Run) hooks.Run {
			asked++
			r.Stdout = runtime.Output{Head: "so far"}
			return r
		}
	})
	for key, shown := range map[string]bool{"operator": true, "author": true, "viewer": false} {
		asked = 0
		got := request(t, server, "GET /v1/hook-runs/run-"+own, "", "X-API-Key: "+key)
		require.Equal(t, 200, got.status, key)
		if shown {
			require.Contains(t, got.text, "so far", key)
			require.Equal(t, 1, asked, key)
		} else {
			require.NotContains(t, got.text, "so far", key)
			require.Zero(t, asked, key)
		}
	}
	asked = 0
	require.NotContains(t, request(t, server, "GET /v1/hook-runs?output=true", "", "X-API-Key: operator").text, "so far")
	require.Equal(t, 404, request(t, server, "GET /v1/hook-runs/run-none", "", "X-API-Key: operator").status)
	require.Zero(t, asked)
}
