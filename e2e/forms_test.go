package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// listedForm is a file as Scion's templates write hooks.
const listedForm = `
pool: { min_idle: 0, max_size: 1 }
env: { PROJECT: demo }
secrets:
  - key: HOOK_TOKEN
lifecycle_hooks:
  - name: register
    on: [post-start]
    action:
      type: http
      method: PUT
      url: "URL/registry/${PROJECT}/${AGENT_SLUG}"
      body: '{"template": "${TEMPLATE_NAME}", "grove": "${GROVE_NAME}", "missing": "${NOTHING}"}'
      headers: { Authorization: "Bearer ${HOOK_TOKEN}" }
    on_error: retry
    blocking: true
  - name: status
    on: [phase-change]
    action: { type: http, method: PATCH, url: "URL/status/${AGENT_ID}", body: '{"phase": "${PHASE}", "before": "${PREVIOUS_PHASE}"}' }
    condition: PHASE == stopped
    debounce: 1s
  - name: ended
    on: [session-end, error]
    action: { type: webhook, url: "URL/ended", body: '{"text": "${AGENT_NAME}: ${EVENT}, ${ERROR_MESSAGE}"}' }
  - name: clean
    on: [pre-stop]
    action: { type: script, command: [APP, append, /state/cleaned, x], env: { OF: "${PROJECT}" } }
    blocking: true
`

// A file in Scion's form does what it says: a hook that blocks is retried, one
// that does not comes after the event, and a name that nothing supplies is empty.
func TestListedForm(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		r := newServices(t)
		s := install(t, rt, "--hooks-allow", "127.0.0.1")
		s.env = append(s.env, "HOSTLER_SECRET_HOOK_TOKEN=hook-token-1")
		s.start()
		s.apply("listed", strings.ReplaceAll(listedForm, "URL", r.URL))
		c, _, err := s.Claim(t.Context(), "listed", "ada", waitTimeout)
		require.NoError(t, err)
		put := r.received("PUT /registry/demo/" + c.Container)
		require.Len(t, put, 1)
		require.JSONEq(t, `{"template": "listed", "grove": "listed", "missing": ""}`, put[0].body)
		require.Equal(t, "Bearer hook-token-1", put[0].header.Get("Authorization"))
		registered := s.runsOf(client.RunFilter{Container: c.Container, Point: client.PostStart})
		require.Equal(t, []client.RunState{client.RunFailed, client.RunSucceeded}, []client.RunState{registered[0].State, registered[1].State})
		require.Contains(t, strings.Join(registered[1].Warnings, " "), "NOTHING is empty")

		require.Empty(t, r.received("POST /ended"))
		_, err = s.Release(t.Context(), c.ID, false)
		require.NoError(t, err)
		ended := r.await(t, "POST /ended", 1)
		require.JSONEq(t, `{"text": "`+c.Container+`: claim.released, "}`, ended[0].body)
		s.deleteWorkload("listed")
		require.NotEmpty(t, r.received("PATCH /status/"+c.Container))
		for _, p := range r.received("PATCH /status/" + c.Container) {
			require.JSONEq(t, `{"phase": "stopped", "before": "stopping"}`, p.body)
		}
		require.Len(t, s.runsOf(client.RunFilter{Container: c.Container, Point: client.PreDestroy, States: []client.RunState{client.RunSucceeded}}), 1)
		s.requireEnds()
	})
}

// Scripts in CFN's form and names in lionagi's do what they say: a failed script
// is a warning, and an event is a record of the log.
func TestTextAndNamesForms(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		s.apply("forms", `
pool: { min_idle: 0, max_size: 1 }
hooks:
  post_claim: |
    cat >/dev/null
    echo "$AGENT_ID of $SWARM_ID"
    sleep 100 & disown
    false
  session.end: [persist_session_end]
`)
		c, _, err := s.Claim(t.Context(), "forms", "ada", waitTimeout)
		require.NoError(t, err)
		require.Len(t, c.Warnings, 1)
		runs := s.runsOf(client.RunFilter{Claim: c.ID, Point: client.PostClaim})
		require.Len(t, runs, 1)
		if rt.name() == "process" {
			require.Equal(t, client.RunFailed, runs[0].State)
			require.Equal(t, c.ID+" of forms\n", runs[0].Stdout.String())
			require.Equal(t, 1, runs[0].Leaked, "the job has ended with the script")
		} else { // the image of the tests has no shell
			require.Equal(t, client.RunStartFailed, runs[0].State)
			require.Contains(t, c.Warnings[0], "/bin/bash")
		}
		_, err = s.Release(t.Context(), c.ID, false)
		require.NoError(t, err)
		s.log.await(t, "the record of the end", func(l logLine) bool {
			event, err := json.Marshal(l)
			return err == nil && l.hasMessage("hook") && strings.Contains(string(event), "claim.released") && strings.Contains(string(event), c.ID)
		})
		s.deleteWorkload("forms")
		s.requireEnds()
	})
}
