package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
)

const gateHTTP = "http: {url: 'https://a.example/decide'}"

// A gate has hooks in the order of the file, in each form of it, and none of them
// brings the policy of hooks of points.
func TestGates(t *testing.T) {
	for _, source := range []string{
		"hooks: {exec.before: [log, {name: ask, " + gateHTTP + ", timeout: 2s}]}",
		"hooks: {tool.pre: [{builtin: log}, {name: ask, " + gateHTTP + ", timeout: 2s}]}",
		"hooks: {PreToolUse: [log_tool_call, {name: ask, " + gateHTTP + ", timeout: 2s}]}",
	} {
		w, err := Parse([]byte(fileWith(source)), "")
		require.NoError(t, err, source)
		require.Empty(t, w.Hooks)
		require.Empty(t, w.EventHooks)
		require.Equal(t, map[hooks.Gate][]hooks.Hook{hooks.ExecBefore: {
			{Name: "exec.before[0]", Action: hooks.Builtin{Name: "log"}, Timeout: 5 * time.Second},
			{Name: "ask", Action: hooks.Request{Method: "POST", URL: template("https://a.example/decide")}, Timeout: 2 * time.Second},
		}}, w.Gates, source)
		require.Equal(t, 12*time.Second, w.GateWorstCase(hooks.ExecBefore))
		require.Zero(t, w.GateWorstCase(hooks.FileBefore))
		requireNormalized(t, w)
	}
	w := parseText(t, fileWith("hooks: [{name: a, on: [exec_pre, request.before, claim.failed], action: {type: http, url: 'https://a.example/'}}]"))
	require.Len(t, w.EventHooks, 1)
	require.Equal(t, []string{"claim.failed"}, w.EventHooks[0].On)
	for _, g := range []hooks.Gate{hooks.ExecBefore, hooks.RequestBefore} {
		require.Equal(t, []hooks.Hook{{Name: "a", Action: hooks.Request{Method: "POST", URL: template("https://a.example/")}, Timeout: 5 * time.Second}}, w.Gates[g])
	}
	requireNormalized(t, w)
	w = parseText(t, fileWith("hooks: [{name: a, on: [exec.before], action: {type: builtin, builtin: guard_destructive}}]"))
	require.Empty(t, w.EventHooks, "a list of gates alone is for no event")
	require.Len(t, w.Gates[hooks.ExecBefore], 1)
}

// secure attaches the guards, naming a gate replaces its guard, also by nothing.
func TestSecure(t *testing.T) {
	destructive := hooks.Hook{Name: "guard_destructive", Action: hooks.Builtin{Name: "guard_destructive"}, Timeout: 5 * time.Second}
	paths := hooks.Hook{Name: "guard_paths", Action: hooks.Builtin{Name: "guard_paths"}, Timeout: 5 * time.Second}
	named := hooks.Hook{Name: "exec.before[0]", Action: hooks.Builtin{Name: "log"}, Timeout: 5 * time.Second}
	const workspace = "workspace: /w\n"
	for source, want := range map[string]map[hooks.Gate][]hooks.Hook{
		workspace + "secure: true":                                          {hooks.ExecBefore: {destructive}, hooks.FileBefore: {paths}},
		"volumes: {state: {target: /s}}\nsecure: true":                      {hooks.ExecBefore: {destructive}, hooks.FileBefore: {paths}},
		workspace + "secure: false":                                         nil,
		workspace + "secure: true\nhooks: {tool.pre: [log]}":                {hooks.ExecBefore: {named}, hooks.FileBefore: {paths}},
		"secure: true\nhooks: {file.before: []}":                            {hooks.ExecBefore: {destructive}},
		"secure: true\nhooks: {file.before: [], exec.before: []}":           nil,
		workspace + "secure: true\nhooks: {request.before: [], events: []}": {hooks.ExecBefore: {destructive}, hooks.FileBefore: {paths}},
	} {
		w := parseText(t, fileWith(source))
		require.Equal(t, want, w.Gates, source)
		require.Equal(t, parseText(t, fileWith("")).Revision, parseText(t, fileWith("hooks: {exec.before: [guard_destructive]}")).Revision)
	}
}

// Gates are copied with hooks_from: those of the file replace them by name, an empty
// list removes them, and secure means the same afterwards.
func TestGatesOfHooksFrom(t *testing.T) {
	parent := parseText(t, "id: parent\nimage: p\nsecure: true\nworkspace: /p\nhooks: {exec.before: [{name: a, builtin: log}, guard_destructive], request.before: [log]}")
	for source, want := range map[string]map[hooks.Gate][]string{
		"":                         {"exec.before": {"a", "exec.before[1]"}, "file.before": {"guard_paths"}, "request.before": {"request.before[0]"}},
		"secure: true":             {"exec.before": {"a", "exec.before[1]", "guard_destructive"}, "file.before": {"guard_paths"}, "request.before": {"request.before[0]"}},
		"hooks: {exec.before: []}": {"file.before": {"guard_paths"}, "request.before": {"request.before[0]"}},
		"secure: true\nhooks: {exec.before: [], file.before: []}":    {"request.before": {"request.before[0]"}},
		"hooks: {tool.pre: [{name: a, builtin: guard_destructive}]}": {"exec.before": {"a", "exec.before[1]"}, "file.before": {"guard_paths"}, "request.before": {"request.before[0]"}},
	} {
		child := parseText(t, "id: child\nimage: c\nworkspace: /c\nhooks_from: parent\n"+source)
		merged, err := child.WithHooksOf(parent, "child.yaml")
		require.NoError(t, err, source)
		got := map[hooks.Gate][]string{}
		for g, list := range merged.Gates {
			for _, h := range list {
				got[g] = append(got[g], h.Name)
			}
		}
		require.Equal(t, want, got, source)
	}
}
