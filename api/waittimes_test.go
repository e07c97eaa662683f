package api_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
)

// A wait of 0 is no wait, in each form. One that is left out is the default.
func TestWaitOfClaim(t *testing.T) {
	for _, tt := range []struct {
		body   string
		wait   time.Duration
		noWait bool
	}{
		{`{"workload":"web","tenant":"t0"}`, 0, false},
		{`{"workload":"web","tenant":"t1","wait":0}`, 0, true},
		{`{"workload":"web","tenant":"t2","wait":"0"}`, 0, true},
		{`{"workload":"web","tenant":"t3","wait":"0s"}`, 0, true},
		{`{"workload":"web","tenant":"t4","wait":"7s"}`, 7 * time.Second, false},
		{`{"workload":"web","tenant":"t5","wait":null}`, 0, false},
	} {
		b := newTestBackend()
		a := request(t, startServer(t, b), "POST /v1/claims", tt.body)
		require.Equal(t, 201, a.status, "%s: %s", tt.body, a.text)
		r, ok := lastRequest(b.Requests).(claim.Request)
		require.True(t, ok)
		require.Equal(t, tt.wait, r.Wait, tt.body)
		require.Equal(t, tt.noWait, r.NoWait, tt.body)
	}
	for _, wrong := range []string{`"-1s"`, `"6m"`, `"soon"`} {
		a := request(t, startServer(t, newTestBackend()), "POST /v1/claims", `{"workload":"web","tenant":"ann","wait":`+wrong+`}`)
		require.Contains(t, []int{400, 422}, a.status, "%s: %s", wrong, a.text)
	}
}

// A touch of a claim that is over is refused: who holds it must learn that the
// container is not theirs.
func TestTouchOfEndedClaim(t *testing.T) {
	address := startServer(t, newTestBackend())
	a := request(t, address, "POST /v1/claims/claim-alice/touch", "{}")
	require.Equal(t, 200, a.status, a.text)
	a = request(t, address, "POST /v1/claims/claim-bob/touch", "{}")
	require.Equal(t, 409, a.status, a.text)
	require.Equal(t, "claim_not_active", a.body["code"])
	require.Contains(t, a.body["detail"], "it is released")
}
