package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
)

// actionsOfServer are hooks of each kind of action that runs on the server, and
// actionsInContainer those of scripts. The end of a name is how the hook ends.
const (
	actionsOfServer = `
    - { name: http-ok, http: { method: POST, url: "URL/ok", body: '{"point": "${POINT}"}', capture: { CAPTURED: $.id } } }
    - { name: http-uses, http: { method: PUT, url: "URL/ok/${CAPTURED}" } }
    - { name: http-fail, http: { url: "URL/fail" }, on_error: continue }
    - { name: http-timeout, http: { url: "URL/slow" }, timeout: 300ms, on_error: continue }
    - { name: http-retry, http: { url: "URL/flaky" }, on_error: retry }
    - { name: http-exhausted, http: { url: "URL/fail" }, on_error: retry, retries: 1, on_exhausted: continue }
    - { name: http-final, http: { url: "URL/missing" }, on_error: retry, on_exhausted: continue }
    - { name: webhook-ok, webhook: { url: "URL/ok", sign: SIGNING_KEY } }
    - { name: webhook-fail, webhook: { url: "URL/fail" }, on_error: continue }
    - { name: webhook-timeout, webhook: { url: "URL/slow" }, timeout: 300ms, on_error: continue }
    - { name: webhook-retry, webhook: { url: "URL/flaky" }, on_error: retry }
    - { name: webhook-exhausted, webhook: { url: "URL/fail" }, on_error: retry, retries: 1, on_exhausted: continue }
    - { name: builtin-ok, builtin: log, with: { message: "at the point" } }
`
	actionsInContainer = `
    - { name: script-ok, shell: [APP, script], script: "append /state/log x" }
    - { name: script-fail, shell: [APP, script], script: fail, on_error: continue }
    - { name: script-timeout, shell: [APP, script], script: hang x, timeout: 500ms, on_error: continue }
    - { name: script-retry, shell: [APP, script], script: "flaky /state/tried", on_error: retry }
    - { name: script-exhausted, shell: [APP, script], script: fail, on_error: retry, retries: 1, on_exhausted: continue }
`
)

// endings are the states of the attempts of a hook, by the end of its name.
var endings = map[string][]client.RunState{
	"ok": {client.RunSucceeded}, "uses": {client.RunSucceeded},
	"fail": {client.RunFailed}, "timeout": {client.RunTimedOut}, "final": {client.RunFailed},
	"retry": {client.RunFailed, client.RunSucceeded}, "exhausted": {client.RunFailed, client.RunFailed},
}

// receiver is a service that hooks call.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
	seen     map[string]bool // of /flaky, by idempotency key
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{seen: map[string]bool{}}
	done := make(chan struct{})
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body) //nolint:errcheck // the test compares it
		r.mu.Lock()
		again := r.seen[q.URL.Path+q.Header.Get("Idempotency-Key")]
		r.seen[q.URL.Path+q.Header.Get("Idempotency-Key")] = true
		r.requests, r.bodies = append(r.requests, q), append(r.bodies, string(body))
		r.mu.Unlock()
		switch q.URL.Path {
		case "/fail":
			w.WriteHeader(http.StatusInternalServerError)
		case "/echo":
			echo := struct {
				Echo string `json:"echo"`
			}{q.URL.Query().Get("key") + " " + q.Header.Get("X-Key") + " " + q.Header.Get("Authorization") + " " + string(body)}
			json.NewEncoder(w).Encode(echo) //nolint:errcheck,errchkjson // the client is the test's
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
		case "/flaky":
			if !again {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		case "/slow":
			select {
			case <-q.Context().Done():
			case <-done:
			}
		default:
			fmt.Fprint(w, `{"id": "r-1"}`) //nolint:errcheck // the client is the test's
		}
	}))
	t.Cleanup(func() { close(done); r.Close() })
	return r
}

// At each point each action has its documented outcome: success, failure,
// timeout, retry, and exhausted retries. Requests have the point's variables, the
// captured values and a constant key. Each point has a workload of its own, so that
// they wait at once. Actions of the server have no backend in them, and for an
// engine one point is as any other.
func TestActions(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, rt backend) {
		r := newReceiver(t)
		s := install(t, rt, "--hooks-allow", "127.0.0.1")
		s.env = append(s.env, "HOSTLER_SECRET_SIGNING_KEY=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		s.start()
		points := []client.Point{client.PreStart, client.PostStart, client.PostCreate, client.PostClaim, client.PreRelease, client.PreDestroy}
		if rt.name() != "process" && !testenv.Selects(10, t.Name()) {
			points = []client.Point{client.PostClaim}
		}
		var running errgroup.Group
		for _, point := range points {
			running.Go(func() error { return s.performActions(point, r.URL) })
		}
		require.NoError(t, running.Wait())
		for _, point := range points {
			s.awaitEvent(eventsOf(actionsAt(point), client.EventContainerDestroyed), 1)
			s.requireActions(point)
		}
		r.requireRequests(t, points)
		require.NotContains(t, s.log.String(), "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		s.requireEnds()
	})
}

// actionsAt returns the workload with the actions at a point.
func actionsAt(point client.Point) string { return strings.ReplaceAll(string(point), "_", "-") }

// performActions has a container live that has the actions at a point.
func (s *server) performActions(point client.Point, url string) error {
	actions := strings.TrimRight(actionsOfServer, "\n")
	if point != client.PreStart {
		actions += actionsInContainer
	}
	text := "secrets: { SIGNING_KEY: { env: HOSTLER_SECRET_SIGNING_KEY } }\npool: { min_idle: 0, max_size: 1 }\nhooks:\n  " + string(point) + ":" + actions
	id := actionsAt(point)
	if _, err := s.Apply(s.t.Context(), id, []byte(workload(s.t, s.rt, id, strings.ReplaceAll(text, "URL", url)))); err != nil {
		return err
	}
	c, _, err := s.Claim(s.t.Context(), id, "ada", waitTimeout)
	if err != nil {
		return err
	}
	_, err = s.Release(s.t.Context(), c.ID, true)
	return err
}

// requireActions checks the runs of a point.
func (s *server) requireActions(point client.Point) {
	s.t.Helper()
	got := map[string][]client.RunState{}
	for _, r := range s.runsOf(client.RunFilter{Workload: actionsAt(point), Point: point}) {
		got[r.Hook] = append(got[r.Hook], r.State)
		if strings.HasSuffix(r.Hook, "-ok") && r.Action == "http" {
			require.Equal(s.t, http.StatusOK, r.Status)
			require.Equal(s.t, []string{"CAPTURED"}, r.Captured)
		}
	}
	count := 18
	if point == client.PreStart {
		count = 13
	}
	require.Len(s.t, got, count, "hooks of %s", point)
	for name, states := range got {
		require.Equal(s.t, endings[name[strings.LastIndex(name, "-")+1:]], states, "%s at %s", name, point)
	}
}

// requireRequests checks what the hooks have sent.
func (r *receiver) requireRequests(t *testing.T, points []client.Point) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := map[string]int{}
	var bodies, webhooks, used []string
	for i, q := range r.requests {
		keys[q.Header.Get("Idempotency-Key")]++
		switch {
		case q.URL.Path == "/ok" && strings.HasPrefix(r.bodies[i], `{"point"`):
			bodies = append(bodies, r.bodies[i])
		case q.URL.Path == "/ok":
			var envelope struct {
				Type  client.Point
				RunID string `json:"run_id"`
			}
			require.NoError(t, json.Unmarshal([]byte(r.bodies[i]), &envelope))
			require.Equal(t, q.Header.Get("Idempotency-Key"), envelope.RunID)
			require.NotEmpty(t, q.Header.Get("Webhook-Signature"))
			webhooks = append(webhooks, string(envelope.Type))
		case strings.HasPrefix(q.URL.Path, "/ok/"):
			used = append(used, q.Method+" "+q.URL.Path)
		}
	}
	var want, wantBodies []string
	for _, p := range points {
		want, wantBodies = append(want, string(p)), append(wantBodies, fmt.Sprintf(`{"point": "%s"}`, p))
	}
	require.ElementsMatch(t, want, webhooks)
	require.ElementsMatch(t, wantBodies, bodies)
	require.Equal(t, slices.Repeat([]string{"PUT /ok/r-1"}, len(points)), used)
	for key, n := range keys {
		require.NotEmpty(t, key)
		require.LessOrEqual(t, n, 2, "one for each attempt")
	}
	require.Len(t, keys, 12*len(points), "one for each hook")
}
