package api_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An active claim has the time at which it becomes idle, if the pool releases
// idle claims.
func TestIdleExpiresAt(t *testing.T) {
	b := newTestBackend()
	server := startServer(t, b)
	a := request(t, server, "POST /v1/claims", `{"workload":"web","tenant":"zoe"}`)
	require.NotContains(t, a.body, "idle_expires_at")
	b.TTL = time.Hour
	a = request(t, server, "GET /v1/claims/"+a.body["id"].(string), "")
	since, err := time.Parse(time.RFC3339, a.body["active_at"].(string))
	require.NoError(t, err)
	require.Equal(t, since.Add(time.Hour).Format(time.RFC3339), a.body["idle_expires_at"])
}
