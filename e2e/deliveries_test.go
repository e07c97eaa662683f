package e2e

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
)

const deliveredWorkload = `
pool: { min_idle: 0, max_size: 2, reuse: never }
hooks:
  events:
    - { name: audit, on: [claim, container.destroyed], webhook: { url: "URL/ok" } }
    - { name: flaky, on: [claim.activated], webhook: { url: "URL/flaky" } }
    - { name: inside, on: [claim.activated], command: [APP, append, /state/seen, x], idempotent: true }
`

// Every event of a workload reaches each hook for it, in the order of the log
// for each container, each delivery with a key of its own, whenever the server
// is killed.
func TestDeliveries(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		r := newReceiver(t)
		s := serve(t, rt, "--hooks-allow", "127.0.0.1")
		s.apply("delivered", strings.ReplaceAll(deliveredWorkload, "URL", r.URL))
		for i := range 4 {
			c, _, err := s.Claim(t.Context(), "delivered", fmt.Sprintf("tenant-%d", i), waitTimeout)
			require.NoError(t, err)
			s.kill()
			s.start()
			_, err = s.Release(t.Context(), c.ID, false)
			require.NoError(t, err)
		}
		s.awaitEvent(eventsOf("delivered", client.EventContainerDestroyed), 4)
		s.kill()
		s.start()
		events := s.events(eventsOf("delivered", "claim", client.EventContainerDestroyed))
		testenv.AwaitTrue(t, "each event to be delivered", func() bool { return len(r.delivered(t)) >= len(events) })

		got := r.delivered(t)
		require.Len(t, got, len(events), "one key for each event")
		for _, e := range events {
			require.Equal(t, string(e.Type), got[e.Seq], "event %d", e.Seq)
		}
		r.requireLaneOrder(t)
		for _, d := range s.awaitDeliveries("delivered") {
			require.Contains(t, []client.DeliveryState{client.DeliverySucceeded, client.DeliveryDiscarded}, d.State, "%+v", d)
			require.True(t, d.State == client.DeliverySucceeded || d.Hook == "inside", "only a command can come too late: %+v", d)
		}
		s.requireEnds()
	})
}

// envelopeOf is the body of a delivery.
type envelopeOf struct {
	Type      string
	Seq       int64
	Hook      string
	Container string
	Claim     string
	RunID     string `json:"run_id"`
}

// envelopes returns the bodies that arrived at /ok, in order.
func (r *receiver) envelopes(t *testing.T) []envelopeOf {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []envelopeOf
	for i, q := range r.requests {
		if q.URL.Path == "/ok" {
			var e envelopeOf
			require.NoError(t, json.Unmarshal([]byte(r.bodies[i]), &e))
			require.Equal(t, e.RunID, q.Header.Get("Idempotency-Key"))
			all = append(all, e)
		}
	}
	return all
}

// delivered returns the types of the events that arrived, by their place in the
// log. Each must always have the same key.
func (r *receiver) delivered(t *testing.T) map[int64]string {
	types, keys := map[int64]string{}, map[int64]string{}
	for _, e := range r.envelopes(t) {
		if key, again := keys[e.Seq]; again {
			require.Equal(t, key, e.RunID, "event %d", e.Seq)
		}
		types[e.Seq], keys[e.Seq] = e.Type, e.RunID
	}
	return types
}

// requireLaneOrder checks that the events of a container, else a claim, arrived
// in the order of the log, apart from repetitions: those that a server sends late.
func (r *receiver) requireLaneOrder(t *testing.T) {
	t.Helper()
	last, seen := map[string]int64{}, map[string]bool{}
	for _, e := range r.envelopes(t) {
		if seen[e.RunID] {
			continue
		}
		seen[e.RunID] = true
		lane := e.Hook + " " + cmp.Or(e.Container, e.Claim)
		require.Greater(t, e.Seq, last[lane], "%s", lane)
		last[lane] = e.Seq
	}
}

// awaitDeliveries returns the deliveries of a workload when all have ended.
func (s *server) awaitDeliveries(workload string) []client.Delivery {
	s.t.Helper()
	var all []client.Delivery
	testenv.AwaitTrue(s.t, "the end of each delivery", func() bool {
		var err error
		all, err = s.Deliveries(s.t.Context(), client.DeliveryFilter{Workload: workload})
		require.NoError(s.t, err)
		for _, d := range all {
			if d.EndedAt == nil {
				return false
			}
		}
		return len(all) > 0
	})
	return all
}

const canaryHooks = `
environment: { REGION: eu }
secrets:
  A: { env: HOSTLER_SECRET_A }
  B: { env: HOSTLER_SECRET_B }
  C: { env: HOSTLER_SECRET_C }
  D: { env: HOSTLER_SECRET_D }
pool: { min_idle: 0, max_size: 1 }
hooks:
  post_claim:
    - name: everywhere
      http:
        method: POST
        url: "URL/echo?key=${A}"
        headers: { X-Key: "${B}" }
        body: '{"key": "${C}"}'
        auth: { type: bearer, secret: D }
        expect: [201]
        keep_response: true
      on_error: continue
    - { name: captures, http: { url: "URL/echo?key=${A}", capture: { ECHO: "$.echo" }, keep_response: true } }
    - { name: prints, command: [BOX, echo, "$ECHO"], environment: { ECHO: "${ECHO}" } }
    - { name: environment, command: [BOX, env], environment: { ECHO: "${ECHO}" } }
  events:
    - { name: notify, on: [claim], webhook: { url: "URL/fail?key=${A}", sign: B }, retries: 1 }
`

// The values of secrets are nowhere in what the server has written: its log, its
// events and runs, its database, and the responses of its API.
func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		r := newReceiver(t)
		s := install(t, rt, "--hooks-allow", "127.0.0.1", "--log-level", "debug")
		var canaries []string
		for _, name := range []string{"A", "B", "C", "D"} {
			value := "canary/" + name + "+7f3a9c"
			if name != "A" { // which is in a URL as it is
				value += "\"quoted\" & more"
			}
			s.env = append(s.env, "HOSTLER_SECRET_"+name+"="+value)
			canaries = append(canaries, value, base64.StdEncoding.EncodeToString([]byte(value)), base64.URLEncoding.EncodeToString([]byte(value)),
				url.QueryEscape(value), url.PathEscape(value), strings.Trim(mustJSON(t, value), `"`))
		}
		s.start()
		s.apply("canary", strings.ReplaceAll(canaryHooks, "URL", r.URL))
		c, _, err := s.Claim(t.Context(), "canary", "ada", waitTimeout)
		require.NoError(t, err)
		_, err = s.Release(t.Context(), c.ID, true)
		require.NoError(t, err)
		s.awaitEvent(eventsOf("canary", client.EventContainerDestroyed), 1)
		testenv.AwaitTrue(t, "a failed delivery", func() bool { return len(r.paths("/fail")) > 0 })
		require.Len(t, r.paths("/echo"), 2, "the hooks have sent the secrets")

		written := []byte(s.log.String() + mustJSON(t, c) + mustJSON(t, s.events(eventsOf("canary"))) +
			mustJSON(t, s.runsOf(client.RunFilter{Workload: "canary"})))
		files, err := filepath.Glob(filepath.Join(s.data, "hostler.db*"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			written = append(written, text...)
		}
		require.Contains(t, string(written), "•••", "responses with secrets were recorded")
		for _, canary := range canaries {
			require.False(t, bytes.Contains(written, []byte(canary)), "%s: ...%s...", canary, around(written, canary))
		}
	})
}

// around returns what is near a text.
func around(all []byte, text string) string {
	i := bytes.Index(all, []byte(text))
	if i < 0 {
		return ""
	}
	return string(all[max(0, i-200):min(len(all), i+200)])
}

func mustJSON(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// paths returns the requests to a path.
func (r *receiver) paths(path string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, q := range r.requests {
		if q.URL.Path == path {
			all = append(all, q.URL.String())
		}
	}
	return all
}
