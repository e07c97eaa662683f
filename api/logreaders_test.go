package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
)

// What a container printed is in its events for those who may read its log: not for
// viewers, and not for its tenant.
func TestLogReaders(t *testing.T) {
	b := newTestBackend()
	excerpt := &activity.Excerpt{Excerpt: "CANARY", Total: 6}
	for typ, data := range map[activity.Type]any{
		activity.ContainerDied:      activity.ContainerDiedData{ExitCode: 3, Output: excerpt},
		activity.ContainerUnhealthy: activity.ContainerUnhealthyData{Check: excerpt, Output: excerpt},
	} {
		b.Append(activity.Event{Type: typ, Workload: "web", Tenant: "alice", Container: "c", Data: activity.Data(data)})
	}
	o := b.Options()
	o.Auth = newTestAuth()
	a := api.New(o)
	for key, want := range map[string]int{"operator": 3, "author": 3, "viewer": 0, "tenant": 0} {
		answer := send(a, key, http.MethodGet, "/v1/events", "", "")
		require.Equal(t, http.StatusOK, answer.Code, answer.Body)
		require.Contains(t, answer.Body.String(), "container.died")
		require.Equal(t, want, strings.Count(answer.Body.String(), "CANARY"), key)
	}
}
