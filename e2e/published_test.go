package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// publishedWorkload has hooks for what the tenant's program publishes. The command may
// run again: its server is killed, perhaps while it begins.
const publishedWorkload = `
pool: { min_idle: 1, max_size: 2 }
hooks:
  events:
    - name: done
      on: [task-completed]
      webhook: { url: "URL/done?tool=${TOOL_NAME}", body: '{"summary": "${TASK_SUMMARY}", "activity": "${ACTIVITY}"}' }
    - { name: changed, on: [activity-change], webhook: { url: "URL/changed" } }
    - { name: inside, on: [custom], command: [APP, append, /state/seen, "$TASK"], idempotent: true, environment: { TASK: "${TASK}" } }
    - { name: ended, on: [session-end], webhook: { url: "URL/ended", body: '{"activity": "${ACTIVITY}"}' } }
`

// What a tenant's program publishes is recorded with its mark, reaches the hooks
// that name it with what the program sent, also when the server is killed in
// between, and is limited. Its last activity comes with the end of the session.
func TestPublishedEvents(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		r := newReceiver(t)
		s := serve(t, rt, "--hooks-allow", "127.0.0.1")
		s.apply("published", strings.ReplaceAll(publishedWorkload, "URL", r.URL))
		c, _, err := s.Claim(t.Context(), "published", "ann", waitTimeout)
		require.NoError(t, err)
		s.mustCLI("activity", c.ID, "executing", "--tool", "grep")
		s.mustCLI("activity", c.ID, "executing", "--tool", "grep")
		s.mustCLI("event", "publish", "agent.task_completed", "--claim", c.ID, "--priority", "9",
			"--data", `{"task_summary": "a \"quoted\" \u001b[2J summary", "tool_name": "a&b/c", "activity": "completed"}`)
		s.mustCLI("event", "publish", "deploy.done", "--claim", c.ID, "--data", `{"task": "x y"}`)
		s.kill()
		s.start()
		require.Contains(t, s.mustCLI("get", "claims"), "executing (grep)")
		out := s.mustCLI("get", "events", "--after", "0", "--type", "agent.*,custom")
		require.Equal(t, 3, strings.Count(out, "[untrusted]"), out)
		require.NotContains(t, out, "\x1b")
		s.mustCLI("activity", c.ID, "waiting_for_input")
		s.eventually(func() bool { return r.count("/changed", "") >= 2 })
		require.Equal(t, 2, r.count("/changed", ""))
		for _, d := range s.awaitDeliveries("published") {
			require.Equal(t, client.DeliverySucceeded, d.State, "%+v", d)
		}
		require.Equal(t, 1, r.count("/done", `{"summary": "a \"quoted\" \u001b[2J summary", "activity": "completed"}`))

		got := s.cli("event", "publish", "claim.released", "--claim", c.ID)
		require.NotZero(t, got.code)
		require.Contains(t, got.err, "custom.claim.released")
		s.requireLimits(c)
		_, err = s.Release(t.Context(), c.ID, false)
		require.NoError(t, err)
		refused := new(client.Error)
		s.eventually(func() bool { // the limit is known without the claim, for a second
			_, err = s.Publish(t.Context(), c.ID, client.Publication{Type: "late"})
			require.ErrorAs(t, err, &refused)
			return refused.Code != client.CodeRateLimited
		})
		require.Equal(t, client.CodeClaimNotActive, refused.Code)
		s.eventually(func() bool { return r.count("/ended", "") > 0 })
		require.Equal(t, 1, r.count("/ended", `{"activity": "waiting_for_input"}`))
		s.awaitDeliveries("published") // it is received before it is on record
		s.requireEnds()
	})
}

// requireLimits publishes until that is refused, and asserts that no more than the
// limits are recorded.
func (s *server) requireLimits(c client.Claim) {
	s.t.Helper()
	dropped, published := int64(0), 0
	start := time.Now()
	for dropped < 20 {
		_, err := s.Publish(s.t.Context(), c.ID, client.Publication{Type: "flood", Data: json.RawMessage(`{}`)})
		if err == nil {
			published++
			continue
		}
		refused := new(client.Error)
		require.ErrorAs(s.t, err, &refused)
		require.Equal(s.t, client.CodeRateLimited, refused.Code)
		require.Equal(s.t, http.StatusTooManyRequests, refused.Status)
		require.Equal(s.t, dropped+1, refused.Dropped)
		require.Equal(s.t, time.Second, refused.RetryAfter)
		dropped = refused.Dropped
	}
	require.LessOrEqual(s.t, published, 50+int(time.Since(start)/(200*time.Millisecond))+1)
	f := eventsOf("published", "custom.flood")
	require.Len(s.t, s.events(f), published)
}

// count returns how many deliveries to a path came, with a body if it is given. One
// that a killed server has sent comes again, with the same key.
func (r *receiver) count(path, body string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := map[string]bool{}
	for i, q := range r.requests {
		if q.URL.Path == path && (body == "" || r.bodies[i] == body) {
			keys[q.Header.Get("Idempotency-Key")] = true
		}
	}
	return len(keys)
}
