package runner

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// always are the variables of every point and event of a container that has a
// claim, with the aliases.
var always = map[string]string{
	"CONTAINER_ID": "recorded", "AGENT_ID": "recorded", "AGENT_NAME": "recorded", "AGENT_SLUG": "recorded",
	"WORKLOAD_ID": "w", "GROVE_ID": "w", "GROVE_NAME": "w", "GROVE_PATH": "w", "SWARM_ID": "w",
	"WORKLOAD_NAME": "Agent", "TEMPLATE_NAME": "Agent", "IMAGE": "box", "HARNESS_NAME": "box", "HARNESS_CONFIG": "box",
	"NODE": "node-1", "CLAIM_ID": "c", "TENANT_ID": "t", "HOOK": "h", "HOOK_NAME": "h", "ATTEMPT": "1",
}

// naming returns a hook that names all variables.
func naming(t *testing.T) hooks.Hook {
	text := ""
	for _, rule := range variables.Names() {
		text += "${" + rule.Name + "}"
	}
	b := template(t, text)
	return hooks.Hook{Name: "h", OnError: hooks.Fail, Action: hooks.Request{Method: "POST", Body: &b}}
}

// requireVariables checks the values of an attempt, and that all other names are
// empty.
func requireVariables(t *testing.T, a Attempt, what string, want map[string]string) {
	t.Helper()
	for _, rule := range variables.Names() {
		for _, name := range append([]string{rule.Name}, rule.Aliases...) {
			got, ok := a.Lookup(name)
			if !rule.IsSuppliedAt(want["EVENT_TYPE"]) {
				require.False(t, ok, "%s: %s", what, name)
				continue
			}
			require.True(t, ok, "%s: %s", what, name)
			require.Equal(t, rule.Class, got.Class, "%s: %s", what, name)
			expected, isSet := want[name]
			if !isSet {
				expected = always[name]
			}
			if name != "RUN_ID" && name != "TIMESTAMP" || isSet {
				require.Equal(t, expected, got.Text, "%s: %s", what, name)
			}
			require.False(t, got.Text == "" && (name == "RUN_ID" || name == "TIMESTAMP"), "%s: %s", what, name)
		}
	}
}

// Each point supplies every trusted variable that it can.
func TestTrustedVariablesOfPoints(t *testing.T) {
	for _, rule := range hooks.Points() {
		x := &receiver{results: []Result{{State: hooks.Succeeded}}}
		r := New(&stubRuntime{status: runtime.Status{State: runtime.Running}}, &fakeRecorder{}, Executors{hooks.KindHTTP: x}, files{})
		_, err := r.Fire(t.Context(), rule.Point, &workload.Workload{ID: "w", Name: "Agent", Image: "box", Hooks: map[hooks.Point][]hooks.Hook{rule.Point: {naming(t)}}},
			Subject{Workload: "w", Container: "recorded", Claim: "c", Tenant: "t", Source: "recycled", Reason: "idle", NoPriorRuns: true})
		require.NoError(t, err)
		p := string(rule.Point)
		requireVariables(t, x.attempts[0], p, map[string]string{
			"POINT": p, "EVENT_TYPE": p, "EVENT": p, "PHASE": rule.Phase, "CLAIM_SOURCE": "recycled", "RELEASE_REASON": "idle",
		})
	}
}

// Each event supplies every trusted variable that it can.
func TestTrustedVariablesOfEvents(t *testing.T) {
	data := map[activity.Type]any{
		activity.ContainerDied:    activity.ContainerDiedData{ExitCode: 137, OOMKilled: true},
		activity.ClaimReleased:    activity.ClaimReleasedData{Reason: "idle", ExitCode: new(3)},
		activity.ContainerClaimed: activity.ContainerClaimedData{Source: "fresh"},
		activity.ClaimActivated:   activity.ClaimActivatedData{Source: "affinity"},
	}
	for _, typ := range activity.Types() {
		if strings.HasPrefix(string(typ), "wait.") {
			data[typ] = activity.WaitData{
				Kind: "consensus", Name: "a", ThresholdMS: 5000, DurationMS: 5012, ExceededMS: 12, Task: "t", Iteration: "3", Phase: "auth",
			}
		}
	}
	extra := map[activity.Type]map[string]string{
		activity.ContainerDied:    {"EXIT_CODE": "137", "OOM_KILLED": "true", "LIMIT_NAME": "memory"},
		activity.ClaimReleased:    {"EXIT_CODE": "3", "RELEASE_REASON": "idle"},
		activity.ContainerClaimed: {"CLAIM_SOURCE": "fresh"},
		activity.ClaimActivated:   {"CLAIM_SOURCE": "affinity"},
	}
	at := time.Date(2026, 11, 22, 1, 2, 3, 4000, time.UTC)
	changes, _ := hooks.EventAliasOf("phase-change")
	failures, _ := hooks.EventAliasOf("error")
	r := New(&stubRuntime{}, &fakeRecorder{}, nil, files{})
	for _, typ := range activity.Types() {
		text := json.RawMessage("{}")
		if d := data[typ]; d != nil {
			text = activity.Data(d)
		}
		a, err := r.EventAttempt(t.Context(), naming(t), hooks.Run{
			ID: "r", Attempt: 1, Event: string(typ), Seq: 7, Hook: "h", Workload: "w", Container: "recorded", Claim: "c", Tenant: "t",
		}, &workload.Workload{ID: "w", Name: "Agent", Image: "box"}, Envelope{Type: string(typ), Timestamp: at, Seq: 7, Message: "m", Data: text})
		require.NoError(t, err)
		require.Equal(t, string(typ), a.Event)
		want := map[string]string{
			"RUN_ID": "r", "EVENT_TYPE": string(typ), "EVENT": string(typ), "EVENT_SEQ": "7", "TIMESTAMP": "2026-11-22T01:02:03.000004Z",
			"EVENT_MESSAGE": "m", "EVENT_DATA": string(text), "PHASE": phases[string(typ)].now, "PREVIOUS_PHASE": phases[string(typ)].before,
		}
		for name, value := range extra[typ] {
			want[name] = value
		}
		if _, isOfWait := data[typ].(activity.WaitData); isOfWait {
			maps.Copy(want, map[string]string{
				"WAIT_TYPE": "consensus", "BLOCKING_TYPE": "consensus", "WAIT_NAME": "a", "TIMEOUT_THRESHOLD": "5000", "TASK": "t", "ITERATION": "3", "WAIT_PHASE": "auth",
				"WAIT_DURATION": "5012", "TIMEOUT_DURATION": "5012", "EXCEEDED_BY": "12",
			})
		}
		for _, f := range failures.Types {
			if f == string(typ) {
				want["ERROR_MESSAGE"] = "m"
			}
		}
		requireVariables(t, a, string(typ), want)
		for _, c := range changes.Types {
			if c == string(typ) {
				require.NotEmpty(t, phases[c].now, "%s is a change of state", typ)
			}
		}
	}
}

// Until the node is on record, the engine is asked; and neither if no hook names
// it. An engine that does not answer does not fail the flow.
func TestNode(t *testing.T) {
	for name, test := range map[string]struct {
		rt   *stubRuntime
		want string
	}{
		"running":     {&stubRuntime{status: runtime.Status{State: runtime.Running, Node: "node-2"}}, "node-2"},
		"unavailable": {&stubRuntime{err: runtime.ErrUnavailable}, ""},
	} {
		x := &receiver{results: []Result{{State: hooks.Succeeded}}}
		r := New(test.rt, &fakeRecorder{}, Executors{hooks.KindHTTP: x}, files{})
		_, err := r.Fire(t.Context(), hooks.PostStart, &workload.Workload{Hooks: map[hooks.Point][]hooks.Hook{hooks.PostStart: {naming(t)}}}, Subject{Container: "new", NoPriorRuns: true})
		require.NoError(t, err)
		got, _ := x.attempts[0].Lookup("NODE")
		require.Equal(t, test.want, got.Text, name)
	}
}

// A test of a hook has the node, as the hook has at its point.
func TestNodeOfTest(t *testing.T) {
	r := New(&stubRuntime{}, &fakeRecorder{}, nil, files{})
	w := &workload.Workload{Hooks: map[hooks.Point][]hooks.Hook{hooks.PostClaim: {naming(t)}}}
	_, a, err := r.TestAttempt(t.Context(), hooks.PostClaim, 0, w, Subject{Container: "recorded"}, nil)
	require.NoError(t, err)
	got, _ := a.Lookup("NODE")
	require.Equal(t, "node-1", got.Text)
}

// A test of a hook at a point of a wait has an example of one, and no wait has its run.
func TestWaitOfTest(t *testing.T) {
	r := New(&stubRuntime{}, &fakeRecorder{}, nil, files{})
	for _, rule := range hooks.Points() {
		w := &workload.Workload{Hooks: map[hooks.Point][]hooks.Hook{rule.Point: {naming(t)}}}
		run, a, err := r.TestAttempt(t.Context(), rule.Point, 0, w, Subject{Container: "recorded"}, nil)
		require.NoError(t, err)
		require.Empty(t, run.Wait)
		got, _ := a.Lookup("WAIT_TYPE")
		require.Equal(t, rule.OfWait, got.Text == "consensus", rule.Point)
	}
}
