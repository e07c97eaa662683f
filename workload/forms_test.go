package workload

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
)

// messages returns the notes of a workload, by field.
func notesByField(w *Workload) map[string][]string {
	all := map[string][]string{}
	for _, n := range w.Notes {
		all[n.Field] = append(all[n.Field], n.Message+" "+n.Hint)
	}
	return all
}

// A list of hooks with on and action (Scion's form) brings its defaults: hooks do
// not block, failures are recorded, and names that nothing supplies are notes.
func TestListedForm(t *testing.T) {
	w := parseAccepted(t, "listed.yaml")
	require.Equal(t, map[string]string{"PROJECT": "demo", "PARENT": "projects/demo/locations/eu"}, w.Environment)
	require.Equal(t, map[string]hooks.Secret{
		"APP_CREDENTIALS": {File: "APP_CREDENTIALS"}, "HOOK_TOKEN": {Env: "HOSTLER_SECRET_HOOK_TOKEN"},
	}, w.Secrets)

	register := w.Hooks[hooks.PostCreate][0]
	require.Equal(t, []any{"register", hooks.Retry, 3, hooks.Continue, 15 * time.Second},
		[]any{register.Name, register.OnError, register.Retries, register.OnExhausted, register.Timeout})
	require.Equal(t, hooks.AuthGCP, register.Action.(hooks.Request).Auth.Type)
	require.Equal(t, hooks.Hook{
		Name: "revoke", Timeout: 30 * time.Second, OnError: hooks.Continue,
		Action: hooks.Command{Args: []string{"/usr/local/bin/revoke.sh"}, Process: hooks.Process{
			Environment: map[string]variables.Template{"ACCOUNT": template("${PROJECT}")},
		}},
	}, w.Hooks[hooks.PreDestroy][0])

	require.Len(t, w.EventHooks, 3)
	monitoring, slack, status := w.EventHooks[0], w.EventHooks[1], w.EventHooks[2]
	require.Equal(t, 15*time.Second, status.Debounce)
	require.Contains(t, status.On, "container.died", "phase-change")
	require.Equal(t, condition(t, "PHASE != stopped"), status.Condition)
	require.Equal(t, []string{"claim.released", "container.destroying"}, slack.On)
	require.Equal(t, hooks.Continue, slack.OnError)
	require.True(t, slack.Action.(hooks.Request).Webhook)
	require.Equal(t, hooks.AuthNone, monitoring.Action.(hooks.Request).Auth.Type)
	require.Equal(t, hooks.DefaultRequestTimeout, monitoring.Timeout)

	notes := notesByField(w)
	require.Equal(t, "agent.activity_changed", status.On[0])
	require.Empty(t, notes["hooks[1].on[0]"])
	require.Contains(t, notes["hooks[2].action.url"][0], "names SLACK_WEBHOOK_URL, which nothing supplies: the request fails")
	require.Contains(t, notes["hooks[3].action.auth"][0], "has no secret")
	require.Contains(t, notes["hooks[0]"][0], "is sent by the server")
	require.Contains(t, notes["harness"][0], "no effect")
}

// One that does not block is for the event of each moment that it names, and one
// that blocks is a hook of each point.
func TestListedPoints(t *testing.T) {
	parse := func(more string) *Workload {
		w, err := Parse([]byte(fileWith("hooks: [{name: a, on: [session-start, pre-stop], action: {type: webhook, url: 'https://a.example'}"+more+"}]")), "")
		require.NoError(t, err)
		return w
	}
	w := parse(", blocking: true, on_error: fail")
	require.Empty(t, w.EventHooks)
	require.Len(t, w.Hooks[hooks.PostClaim], 1)
	require.Len(t, w.Hooks[hooks.PreDestroy], 1)
	w = parse("")
	require.Empty(t, w.Hooks)
	require.Equal(t, []string{"claim.activated", "container.destroying"}, w.EventHooks[0].On)
}

// A point with a script (CFN's form) brings its defaults, also in the front matter
// of a Markdown file.
func TestTextForm(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("testdata", "markdown", "coordinator.md"))
	require.NoError(t, err)
	w, err := Parse(source, "coordinator.md")
	require.NoError(t, err)
	immediately := time.Duration(0)
	require.Equal(t, []hooks.Hook{{
		Name: "post_claim[0]", Timeout: 5 * time.Second, OnError: hooks.Continue,
		Action: hooks.Script{
			Text: "# Restore the context.\ntest -f context.json && jq . context.json\nindex & disown\n", Shell: []string{"/bin/bash"},
			Process: hooks.Process{
				Environment: map[string]variables.Template{"AGENT_ID": template("${CLAIM_ID}"), "SWARM_ID": template("${WORKLOAD_ID}")},
				Workdir:     "/workspace", Grace: &immediately, Limits: hooks.ProcessLimits{CPUTime: 5 * time.Second, FileSize: 100 << 20},
			},
		},
	}}, w.Hooks[hooks.PostClaim])
	waits := w.Hooks[hooks.WaitStart][0].Action.(hooks.Script)
	waits.Environment = nil
	require.Equal(t, hooks.Script{
		Text: "echo \"waiting: ${AGENT_ID}\"\n", Shell: []string{"/bin/bash"},
		Process: hooks.Process{Workdir: "/workspace", Grace: &immediately, Limits: hooks.ProcessLimits{CPUTime: 5 * time.Second, FileSize: 100 << 20}},
	}, waits)
	created, err := Parse([]byte(fileWith("hooks: {post_create: 'exit 0'}")), "")
	require.NoError(t, err)
	require.Equal(t, "${CONTAINER_ID}", created.Hooks[hooks.PostCreate][0].Action.(hooks.Script).Environment["AGENT_ID"].String())
	notes := notesByField(w)
	require.Contains(t, notes["hooks.on_blocking_start"][0], "at most 5 s of CPU time") // once in a file
	require.Len(t, notes["hooks.post_claim"], 1)

	again, err := Parse(w.Source, "coordinator.md")
	require.NoError(t, err)
	require.Equal(t, w, again)
	again, err = Parse(w.Source, "coordinator")
	require.NoError(t, err)
	require.Equal(t, w.Hooks, again.Hooks)
	_, err = Parse([]byte("# A title\n\nNo front matter.\n"), "x.md")
	require.ErrorContains(t, err, "not a mapping")
}

// Scripts start in the workspace: that of the file, or the volume of the state, or
// else where the container starts. One with a workdir starts there. Commands start
// where the container does.
func TestScriptsStartInWorkspace(t *testing.T) {
	for keys, want := range map[string]string{
		"":                               "",
		"workspace: /w":                  "/w",
		"volumes: {state: {target: /s}}": "/s",
		"volumes: {comm: {target: /o}}":  "",
		"workspace: /w\nvolumes: {comm: {target: /o}, state: {target: /s}}": "/w",
	} {
		w, err := Parse([]byte(fileWith(keys+"\nhooks: {post_create: 'a', post_claim: [{script: a}, {script: a, workdir: /x}, {command: [a]}]}")), "")
		require.NoError(t, err, keys)
		require.Equal(t, want, w.Hooks[hooks.PostCreate][0].Action.(hooks.Script).Workdir, keys)
		hs := w.Hooks[hooks.PostClaim]
		require.Equal(t, want, hs[0].Action.(hooks.Script).Workdir, keys)
		require.Equal(t, "/x", hs[1].Action.(hooks.Script).Workdir, keys)
		require.Empty(t, hs[2].Action.(hooks.Command).Workdir, keys)
	}
}

// Each point of a wait supplies the variables of CFN's form.
func TestTextFormAtWaits(t *testing.T) {
	w, err := Parse([]byte(fileWith("hooks: {on_blocking_start: 'a', on_signal_received: 'b', on_blocking_timeout: 'c'}")), "")
	require.NoError(t, err)
	require.Len(t, w.Notes, 1, "the limits")
	always := []string{"AGENT_ID", "BLOCKING_TYPE", "ITERATION", "PHASE", "SWARM_ID", "TASK", "TIMEOUT_THRESHOLD"}
	for point, further := range map[hooks.Point][]string{
		hooks.WaitStart: nil, hooks.WaitSignal: {"SIGNAL_DATA", "WAIT_DURATION"}, hooks.WaitTimeout: {"TIMEOUT_DURATION", "EXCEEDED_BY"},
	} {
		require.Len(t, w.Hooks[point], 1)
		h := w.Hooks[point][0]
		script := h.Action.(hooks.Script)
		require.ElementsMatch(t, append(further, always...), slices.Collect(maps.Keys(script.Environment)), point)
		require.Equal(t, "${CLAIM_ID}", script.Environment["AGENT_ID"].String())
		require.Equal(t, "${WAIT_PHASE}", script.Environment["PHASE"].String())
		require.Equal(t, []any{5 * time.Second, hooks.Continue}, []any{h.Timeout, h.OnError})
	}
}

// A hook at a point of a wait has 5 seconds, and a failure changes nothing, unless the
// file says otherwise.
func TestDefaultsAtWaits(t *testing.T) {
	w, err := Parse([]byte(fileWith("hooks: {wait_start: [{command: [a]}, {command: [b], on_error: fail, timeout: 1m}]}")), "")
	require.NoError(t, err)
	hs := w.Hooks[hooks.WaitStart]
	require.Equal(t, []any{5 * time.Second, hooks.Continue, time.Minute, hooks.Fail}, []any{hs[0].Timeout, hs[0].OnError, hs[1].Timeout, hs[1].OnError})
}

// A point or an event with names of builtins (lionagi's form).
func TestNamesForm(t *testing.T) {
	w := parseAccepted(t, "names.yaml")
	require.Len(t, w.Hooks[hooks.PostClaim], 2)
	require.Equal(t, hooks.Builtin{Name: "log"}, w.Hooks[hooks.PostClaim][0].Action)
	require.Equal(t, []hooks.EventHook{
		{On: []string{"artifact.created"}, Hook: hooks.Hook{
			Name: "artifact.created.log", Timeout: hooks.DefaultRequestTimeout, OnError: hooks.Retry,
			OnExhausted: hooks.Continue, Action: hooks.Builtin{Name: "log"},
		}},
		{On: []string{"agent.turn_started"}, Hook: hooks.Hook{
			Name: "branch.create.persist_branch_provenance", Timeout: hooks.DefaultRequestTimeout, OnError: hooks.Retry,
			OnExhausted: hooks.Continue, Action: hooks.Builtin{Name: "log"},
		}},
		{On: []string{"claim.released"}, Hook: hooks.Hook{
			Name: "session.end.persist_session_end", Timeout: hooks.DefaultRequestTimeout, OnError: hooks.Retry,
			OnExhausted: hooks.Continue, Action: hooks.Builtin{Name: "log"},
		}},
		{On: []string{"exec.completed"}, Hook: hooks.Hook{
			Name: "tool.post.log_tool_call", Timeout: hooks.DefaultRequestTimeout, OnError: hooks.Retry,
			OnExhausted: hooks.Continue, Action: hooks.Builtin{Name: "log"},
		}},
	}, w.EventHooks)
	notes := notesByField(w)
	require.NotContains(t, notes, "hooks.branch.create")
	require.NotContains(t, notes, "hooks.tool.post")
	require.Contains(t, notes["hooks.message.add"][0], "activity log")
	require.Contains(t, notes["hooks.session.start[1].builtin"][0], "log_tool_call")
	require.NotContains(t, notes, "hooks.tool.pre")
}

// A hook of a point that does not block is one for the event of the moment.
func TestBlockingFalse(t *testing.T) {
	w, err := Parse([]byte(fileWith("hooks: {post_claim: [{name: a, blocking: false, debounce: 1s, webhook: {url: 'https://a.example'}}, {command: [b]}]}")), "")
	require.NoError(t, err)
	require.Equal(t, "post_claim[0]", w.Hooks[hooks.PostClaim][0].Name, "the other one is not a hook of the point")
	require.Equal(t, hooks.PostClaim, w.EventHooks[0].Point)
	require.Equal(t, []string{"claim.activated"}, w.EventHooks[0].On)
	require.Equal(t, hooks.Retry, w.EventHooks[0].OnError)
	require.Equal(t, time.Second, w.EventHooks[0].Debounce)
}

// Every point has an event of its moment, and every name of an alias is recorded
// or known to be of a later version.
func TestMoments(t *testing.T) {
	for _, p := range hooks.Points() {
		require.True(t, isRecorded(momentOf(p.Point)), p.Point)
	}
	for _, p := range pointAliases {
		require.NotEmpty(t, moments[p])
	}
}
