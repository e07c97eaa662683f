package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/doctor"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/wait"
)

// What a hook or a check printed in a tenant's container explains a failure to the
// tenant, to authors and to operators. Others, such as viewers, read that it failed.
func TestPrintedReasons(t *testing.T) {
	code := 7
	run := hooks.Run{Point: hooks.PostClaim, Hook: "a", Attempt: 1, State: hooks.Failed, Detail: hooks.Detail{ExitCode: &code}, Stderr: runtime.Output{Head: "CANARY\n\"CANARY\""}}
	printed := (&hooks.Error{Run: run}).Error()
	const check = "container is unhealthy: its check exited with code 7: CANARY"
	b := newTestBackend()
	b.Claims = []claim.Claim{{ID: "k", Workload: "web", Tenant: "alice", State: claim.Failed, Reason: printed, ReasonChain: []string{"undo: " + printed}, Warnings: []string{printed}}}
	b.Containers = []pool.Container{{ID: "c", Workload: "web", Tenant: "alice", State: pool.Destroying, Reason: "its claim failed: " + check, ReasonChain: []string{printed}}}
	b.Deliveries = []delivery.Delivery{{ID: "d", Workload: "web", Tenant: "alice", State: delivery.Failed, Reason: printed}}
	b.Waits = []wait.Wait{{ID: "w", Workload: "web", Tenant: "alice", State: wait.Aborted, Reason: printed}}
	b.Report.Findings = []doctor.Finding{{Workload: "web", Tenant: "alice", Message: "claim k failed: " + printed}}
	b.Append(activity.Event{Type: activity.ClaimFailed, Workload: "web", Tenant: "alice", Claim: "k", Message: printed, Data: activity.Data(activity.ReasonData{Reason: printed})})
	b.Append(activity.Event{Type: activity.ContainerDestroying, Workload: "web", Tenant: "alice", Container: "c", Message: check, Data: activity.Data(activity.ContainerDestroyingData{PreviousState: "claimed", Reason: check})})
	o := b.Options()
	o.Auth = newTestAuth()
	a := api.New(o)

	for path, found := range map[string]int{
		"/v1/claims/k": 5, "/v1/claims?state=failed": 5, "/v1/containers/c": 3, "/v1/containers?state=destroying": 3, "/v1/deliveries/d": 2, "/v1/deliveries": 2,
		"/v1/waits?state=aborted": 2, "/v1/events": 6, "/v1/doctor": 2,
	} {
		for _, key := range []string{"operator", "author", "tenant", "viewer"} {
			path, query, _ := strings.Cut(path, "?")
			answer := send(a, key, http.MethodGet, path, query, "")
			text := answer.Body.String()
			if answer.Code == http.StatusForbidden {
				require.NotEqual(t, "viewer", key)
				continue
			}
			require.Equal(t, http.StatusOK, answer.Code, text)
			require.Contains(t, text, "exited with code 7", path)
			if key == "viewer" {
				require.NotContains(t, text, "CANARY", path)
				continue
			}
			require.GreaterOrEqual(t, strings.Count(text, "CANARY"), found, "%s of %s", path, key)
		}
	}
}
