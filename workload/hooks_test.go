package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
)

func condition(t *testing.T, text string) variables.Condition {
	t.Helper()
	c, err := variables.ParseCondition(text)
	require.NoError(t, err)
	return c
}

func jsonPath(t *testing.T, text string) variables.Path {
	t.Helper()
	p, err := variables.ParsePath(text)
	require.NoError(t, err)
	return p
}

func bodyOf(text string) *variables.Template { return body(&text) }

// Every key of a hook is read, and what is omitted has the default of its kind
// and its point.
func TestParseHooks(t *testing.T) {
	w := parseAccepted(t, "hooks.yaml")
	require.Empty(t, w.Notes)
	immediately := time.Duration(0)
	require.Equal(t, map[hooks.Point][]hooks.Hook{
		hooks.PostClaim: {
			{
				Name: "migrate", Timeout: 15 * time.Second, OnError: hooks.Fail,
				Action: hooks.Command{Args: []string{"python", "migrate.py"}, Process: hooks.Process{
					Environment: map[string]variables.Template{"WHO": template("${TENANT_ID}")}, Grace: &immediately,
				}},
			},
			{
				Name: "warm", Timeout: hooks.DefaultTimeout, OnError: hooks.Fail, Condition: condition(t, "CLAIM_SOURCE == fresh"), StopOn: []int{75},
				Action: hooks.Script{Text: "curl -sf localhost:8080/warm\n", Shell: []string{"/bin/sh"}, Process: hooks.Process{
					Workdir: "/data", Limits: hooks.ProcessLimits{CPUTime: 5 * time.Second, Memory: 1 << 30, FileSize: 100 << 20, Output: 1 << 20},
				}},
			},
			{
				Name: "register", Timeout: hooks.DefaultRequestTimeout, OnError: hooks.Retry, Retries: 2, OnExhausted: hooks.Continue,
				Action: hooks.Request{
					Method: "PUT", URL: template("${REGISTRY}/v1/services/${CONTAINER_ID}"),
					Headers: map[string]variables.Template{"Content-Type": template("application/json"), "X-Region": template("${REGION}")},
					Body:    bodyOf(`{"workload": "${WORKLOAD_ID}", "tenant": "${TENANT_ID}"}`),
					Auth:    hooks.Auth{Type: hooks.AuthBearer, Secret: "REGISTRY_TOKEN"}, Expect: []int{200, 201, 409},
					Capture: map[string]variables.Path{"REGISTRATION_ID": jsonPath(t, "$.id")}, KeepResponse: true,
				},
			},
			{Name: "post_claim[3]", Timeout: hooks.DefaultRequestTimeout, OnError: hooks.Fail, Action: hooks.Builtin{Name: "log"}},
			{
				Name: "post_claim[4]", Timeout: hooks.DefaultRequestTimeout, OnError: hooks.Continue, Disabled: true,
				Action: hooks.Builtin{Name: "log", With: map[string]any{"level": "debug", "message": "1"}},
			},
			{
				Name: "shell", Timeout: hooks.DefaultTimeout, OnError: hooks.Fail, Idempotent: true,
				Action: hooks.Script{Text: "exit 0", Shell: []string{"/bin/bash", "-e"}, Process: hooks.Process{User: "1000", Workdir: "/tmp"}},
			},
		},
		hooks.PreDestroy: {
			{Name: "deregister", Timeout: hooks.DefaultRequestTimeout, OnError: hooks.Fail, Action: hooks.Request{
				Method: "DELETE", URL: template("https://registry.example/v1/services/${REGISTRATION_ID}"), Expect: []int{200, 204, 404},
			}},
			{Name: "told", Timeout: hooks.DefaultRequestTimeout, OnError: hooks.Fail, Action: hooks.Request{
				Webhook: true, Method: "POST", URL: template("${SLACK_URL}"), Sign: "REGISTRY_TOKEN",
			}},
		},
	}, w.Hooks)
	require.Equal(t, []hooks.EventHook{{
		Hook: hooks.Hook{
			Name: "notify", Timeout: hooks.DefaultRequestTimeout, OnError: hooks.Retry, Retries: hooks.DefaultEventRetries, OnExhausted: hooks.Continue,
			Action: hooks.Request{Webhook: true, Method: "POST", URL: template("${SLACK_URL}"), Body: bodyOf(`{"text": "${WORKLOAD_ID}: ${EVENT_MESSAGE}"}`)},
		},
		On: []string{"claim.failed"}, Debounce: 15 * time.Second,
	}}, w.EventHooks)
	require.Equal(t, map[string]hooks.Secret{
		"REGISTRY_TOKEN": {File: "registry/token"}, "SLACK_URL": {Env: "HOSTLER_SECRET_SLACK_URL"},
	}, w.Secrets)
}

// A request captures its response if a hook names it, and only then.
func TestNamedResponses(t *testing.T) {
	w, err := Parse([]byte(fileWith(`hooks:
  post_claim:
    - { name: get-key, http: { url: "https://a.example" } }
    - { name: other, http: { url: "https://a.example" }, condition: "HOOK_ask_RESPONSE == yes" }
    - { name: use, command: [a], environment: { KEY: "${HOOK_get-key_RESPONSE}" } }
  events:
    - { name: ask, on: [claim.activated], webhook: { url: "https://a.example" } }
`)), "w.yaml")
	require.NoError(t, err)
	require.Equal(t, "HOOK_get-key_RESPONSE", w.Hooks[hooks.PostClaim][0].Action.(hooks.Request).ResponseAs)
	require.Empty(t, w.Hooks[hooks.PostClaim][1].Action.(hooks.Request).ResponseAs)
	require.Equal(t, "HOOK_ask_RESPONSE", w.EventHooks[0].Action.(hooks.Request).ResponseAs)
	_, err = Parse([]byte(fileWith(`hooks: { post_claim: [{ command: [a] , condition: "HOOK_none_RESPONSE == yes" }] }`)), "w.yaml")
	require.ErrorContains(t, err, "which nothing supplies")
}

// Hooks for events of waits have the variables that one of their events supplies, also
// under their other names.
func TestVariablesOfWaitEvents(t *testing.T) {
	for on, name := range map[string]string{
		"wait": "BLOCKING_TYPE", "wait.expired": "EXCEEDED_BY", "wait.signalled": "WAIT_DURATION", "claim.failed, wait.aborted": "TIMEOUT_DURATION",
		"wait.cancelled": "TASK", "message.add": "WAIT_NAME",
	} {
		_, err := Parse([]byte(fileWith("hooks: {events: [{name: a, on: ["+on+"], webhook: {url: 'https://a.example', body: '{\"a\": \"${"+name+"}\"}'}}]}")), "")
		require.NoError(t, err, on)
	}
	_, err := Parse([]byte(fileWith("hooks: {wait_timeout: [{name: a, blocking: false, webhook: {url: 'https://a.example/${EXCEEDED_BY}'}}]}")), "")
	require.NoError(t, err)
}
