package dryrun_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/dryrun"
	"github.com/hostler/hostler/hooks/request"
	"github.com/hostler/hostler/workload"
)

const canary = "canary-0123456789/+"

const file = `
id: web
name: Web
image: app:1
environment: { REGISTRY: "http://ADDRESS", GREETING: "hello CANARY" }
secrets: { TOKEN: { env: HOSTLER_SECRET_TOKEN }, HOOK_URL: { env: HOSTLER_SECRET_HOOK_URL }, NONE: { env: HOSTLER_SECRET_NONE } }
hooks:
  post_claim:
    - name: register
      http:
        url: "${REGISTRY}/v1/${CONTAINER_ID}?tenant=${TENANT_ID}"
        method: PUT
        body: '{"claim": "${CLAIM_ID}", "key": "${TOKEN}"}'
        auth: { type: bearer, secret: TOKEN }
        capture: { KEY_ID: "$.id" }
    - name: greet
      condition: CLAIM_SOURCE == recycled
      script: echo "$TEXT"
      environment: { TEXT: "${GREETING} ${KEY_ID}", SOURCE: "${CLAIM_SOURCE}" }
    - { name: key, http: { url: "http://named.example/${KEY_ID}" } }
    - { name: none, webhook: { url: "http://named.example/", sign: NONE } }
    - { name: log, builtin: log, with: { message: "CANARY" } }
    - { name: off, enabled: false, command: [flush, now], user: app, workdir: /w }
  events:
    - { name: notify, on: [claim.failed], webhook: { url: "${HOOK_URL}", body: '{"text": "${EVENT_MESSAGE}", "no": ${EVENT_SEQ}}', sign: TOKEN } }
    - { name: audit, on: [claim], webhook: { url: "http://named.example/" } }
    - { name: oom, on: [limits-exceeded], builtin: log }
`

// setUp returns a service for the file, and the number of connections and of
// look-ups so far.
func setUp(t *testing.T) (*dryrun.Service, func() int64) {
	t.Helper()
	var count atomic.Int64
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			count.Add(1)
			c.Close()
		}
	}()
	t.Cleanup(func() { listener.Close(); <-accepted })
	original := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = original })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		count.Add(1)
		return nil, net.ErrClosed
	}}
	t.Setenv("HOSTLER_SECRET_TOKEN", canary)
	t.Setenv("HOSTLER_SECRET_HOOK_URL", "http://"+listener.Addr().String()+"/canary-path-0123456789")
	redactor := new(request.Redactor)
	x, err := request.New(request.Options{
		Allow: []string{"127.0.0.1", "*.example"}, Redactor: redactor, Secrets: request.NewSecrets("", redactor),
	})
	require.NoError(t, err)
	t.Cleanup(x.Close)
	text := strings.NewReplacer("ADDRESS", listener.Addr().String(), "CANARY", canary).Replace(file)
	w, err := workload.Parse([]byte(text), "w.yaml")
	require.NoError(t, err)
	current := func(context.Context, string) (*workload.Workload, error) { return w, nil }
	return dryrun.New(current, x), count.Load
}

// A dry run shows each hook of a point with its variables, and no secret. It
// connects to nothing and resolves nothing.
func TestPoint(t *testing.T) {
	s, connections := setUp(t)
	r, err := s.Run(t.Context(), "web", "session-start", map[string]string{"TENANT_ID": "alice b", "AGENT_ID": "c-1"})
	require.NoError(t, err)
	require.Equal(t, hooks.PostClaim, r.Point)
	require.Equal(t, []string{"register", "greet", "key", "none", "log", "off"}, names(r))

	register := r.Hooks[0]
	require.True(t, register.Runs)
	require.Equal(t, "PUT", register.Request.Method)
	require.Contains(t, register.Request.URL, "/v1/c-1?tenant=alice%20b")
	require.Equal(t, `{"claim": "sample-claim", "key": "•••"}`, register.Request.Body)
	require.Equal(t, "•••", register.Request.Headers["Authorization"])
	require.Equal(t, dryrun.Variable{Name: "CLAIM_ID", Value: "sample-claim", Source: dryrun.Sample}, register.Variables[0])
	require.Equal(t, dryrun.Variable{Name: "CONTAINER_ID", Value: "c-1", Source: dryrun.Given}, register.Variables[1])
	require.Equal(t, dryrun.Environment, register.Variables[2].Source)
	require.Equal(t, dryrun.Variable{Name: "TENANT_ID", Value: "alice b", Source: dryrun.Given}, register.Variables[3])
	require.Equal(t, dryrun.Variable{Name: "TOKEN", Value: "•••", Source: dryrun.OfSecret}, register.Variables[4])

	greet := r.Hooks[1]
	require.False(t, greet.Runs)
	require.False(t, greet.Holds)
	require.Equal(t, "CLAIM_SOURCE == recycled", greet.Condition)
	require.Equal(t, []string{"/bin/sh"}, greet.Command.Args)
	require.Equal(t, `echo "$TEXT"`, greet.Command.Script)
	require.Equal(t, "fresh", greet.Command.Environment["SOURCE"])
	require.Contains(t, greet.Command.Environment["TEXT"], "hello •••")
	require.Equal(t, "c-1", greet.Command.Environment["HOSTLER_CONTAINER"])
	require.Contains(t, greet.Command.Stdin, `"tenant":"alice b"`)
	require.Contains(t, greet.Variables, dryrun.Variable{Name: "KEY_ID", Source: dryrun.Captured, Untrusted: true, Missing: true})

	require.Contains(t, r.Hooks[2].Error, "KEY_ID")
	require.False(t, r.Hooks[2].Runs)
	require.Contains(t, r.Hooks[3].Error, "NONE")
	require.Equal(t, "log", r.Hooks[4].Builtin.Name)
	require.False(t, r.Hooks[5].Runs)
	require.True(t, r.Hooks[5].Disabled)
	require.Equal(t, dryrun.Command{
		Args: []string{"flush", "now"}, User: "app", Workdir: "/w", Environment: r.Hooks[5].Command.Environment, Stdin: r.Hooks[5].Command.Stdin,
	}, *r.Hooks[5].Command)

	given, err := s.Run(t.Context(), "web", "post_claim", map[string]string{"KEY_ID": "a/k", "CLAIM_SOURCE": "recycled"})
	require.NoError(t, err)
	require.True(t, given.Hooks[1].Runs)
	require.Equal(t, "http://named.example/a%2Fk", given.Hooks[2].Request.URL)
	require.Equal(t, dryrun.Variable{Name: "KEY_ID", Value: "a/k", Source: dryrun.Given, Untrusted: true}, given.Hooks[2].Variables[0])
	hasNoSecret(t, r, given)
	require.Zero(t, connections())
}

// Hooks for an event get a sample of it, and what the caller gives.
func TestEvent(t *testing.T) {
	s, connections := setUp(t)
	r, err := s.Run(t.Context(), "web", "claim.failed", map[string]string{"EVENT_MESSAGE": `no "room"`})
	require.NoError(t, err)
	require.Equal(t, "claim.failed", r.Event)
	require.Equal(t, []string{"audit", "notify"}, names(r))
	require.Equal(t, `{"text": "no \"room\"", "no": 0}`, r.Hooks[1].Request.Body)
	require.Equal(t, "•••", r.Hooks[1].Request.Headers["Webhook-Signature"])
	require.Contains(t, r.Hooks[0].Request.Body, `"type":"claim.failed"`)

	for on, want := range map[string][]string{
		"claim": {"audit", "notify"}, "session-end": {"audit"}, "message.add": {"audit", "notify"}, "container.died": nil, "error": {"audit", "notify"},
	} {
		got, err := s.Run(t.Context(), "web", on, nil)
		require.NoError(t, err, on)
		require.Equal(t, want, names(got), on)
		hasNoSecret(t, got)
	}
	oom, err := s.Run(t.Context(), "web", "container.died", map[string]string{"EVENT_DATA": `{"oom_killed": true}`})
	require.NoError(t, err)
	require.Equal(t, []string{"oom"}, names(oom))
	hasNoSecret(t, r, oom)
	require.Zero(t, connections())
}

// The points of a wait and its events have an example of a wait, in the variables and in
// the envelope.
func TestWait(t *testing.T) {
	s := serviceOf(t, `
id: web
image: app:1
hooks:
  on_blocking_start: echo start
  on_signal_received: echo signal
  on_blocking_timeout: echo timeout
  events: [{ name: late, on: [wait.escalated], webhook: { url: "http://named.example/", body: '{"task": "${TASK}", "by": ${EXCEEDED_BY}}' } }]
`)
	always := map[string]string{
		"AGENT_ID": "sample-claim", "SWARM_ID": "web", "TASK": "sample task", "ITERATION": "2", "PHASE": "sample phase", "BLOCKING_TYPE": "consensus", "TIMEOUT_THRESHOLD": "60000",
	}
	for point, further := range map[string]map[string]string{
		"wait_start":          {},
		"on_signal_received":  {"SIGNAL_DATA": `{"a": [1]}`, "WAIT_DURATION": "45000"},
		"on_blocking_timeout": {"TIMEOUT_DURATION": "60012", "EXCEEDED_BY": "12"},
	} {
		r, err := s.Run(t.Context(), "web", point, map[string]string{"ITERATION": "2", "SIGNAL_DATA": `{"a": [1]}`})
		require.NoError(t, err)
		require.Len(t, r.Hooks, 1)
		environment := r.Hooks[0].Command.Environment
		maps.Copy(further, always)
		for name, value := range further {
			require.Equal(t, value, environment[name], "%s at %s", name, point)
		}
		var envelope struct {
			Data struct {
				Context   map[string]any
				TimeoutMS int `json:"timeout_ms"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(r.Hooks[0].Command.Stdin), &envelope))
		require.Equal(t, map[string]any{"task": "sample task", "iteration": 2.0, "phase": "sample phase"}, envelope.Data.Context)
		require.Equal(t, 60_000, envelope.Data.TimeoutMS)
	}
	r, err := s.Run(t.Context(), "web", "wait.escalated", nil)
	require.NoError(t, err)
	require.Equal(t, `{"task": "sample task", "by": 12}`, r.Hooks[0].Request.Body)
	_, err = s.Run(t.Context(), "web", "wait_signal", map[string]string{"SIGNAL_DATA": "{"})
	require.ErrorIs(t, err, dryrun.ErrInvalid)
}

// At each point of a claim, its source is known, as it is when the hooks run.
func TestClaimSource(t *testing.T) {
	s := serviceOf(t, `
id: web
image: app:1
hooks:
  post_claim: [{ script: echo }]
  wait_start: [{ script: echo }]
  wait_signal: [{ script: echo }]
  wait_timeout: [{ script: echo }]
  pre_release: [{ condition: CLAIM_SOURCE == recycled, script: echo }]
`)
	for _, point := range []string{"post_claim", "wait_start", "wait_signal", "wait_timeout", "pre_release"} {
		for _, given := range []map[string]string{nil, {"CLAIM_SOURCE": "recycled"}} {
			r, err := s.Run(t.Context(), "web", point, given)
			require.NoError(t, err)
			want := cmp.Or(given["CLAIM_SOURCE"], "fresh")
			require.Equal(t, want, r.Hooks[0].Command.Environment["HOSTLER_CLAIM_SOURCE"], point)
			require.Equal(t, point != "pre_release" || given != nil, r.Hooks[0].Runs, point)
		}
	}
}

// What no hook can be for, and what nothing supplies, is refused. The value of a
// secret cannot be given.
func TestInvalid(t *testing.T) {
	s, _ := setUp(t)
	for _, test := range []struct{ on, name, value string }{
		{"nothing", "", ""}, {"exec.before", "", ""}, {"post_claim", "UNKNOWN", "x"}, {"post_claim", "TOKEN", "x"}, {"claim.failed", "EVENT_DATA", "{"},
	} {
		given := map[string]string{}
		if test.name != "" {
			given[test.name] = test.value
		}
		_, err := s.Run(t.Context(), "web", test.on, given)
		require.ErrorIs(t, err, dryrun.ErrInvalid, "%v", test)
	}
}

func names(r dryrun.Result) []string {
	var all []string
	for _, h := range r.Hooks {
		all = append(all, h.Name)
	}
	return all
}

// hasNoSecret checks that no secret is in a report, in any encoding.
func hasNoSecret(t *testing.T, reports ...dryrun.Result) {
	t.Helper()
	text, err := json.Marshal(reports)
	require.NoError(t, err)
	for _, s := range []string{"canary", url.QueryEscape(canary), base64.StdEncoding.EncodeToString([]byte(canary))} {
		require.NotContains(t, string(text), s)
	}
}
