package runner

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
	"github.com/hostler/hostler/workload"
)

// The variables of an event hook are those of Hostler, which the workload's
// environment does not shadow, also under their other names, and those of the event: when it was recorded,
// the state after and before it, how the main process ended, and what failed.
func TestEventVariables(t *testing.T) {
	code := 3
	recorded := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.FixedZone("", 3600))
	common := map[string]string{"TIMESTAMP": "2026-01-02T02:04:05.006Z", "EVENT_SEQ": "7", "POINT": "", "CONTAINER_ID": "c", "TENANT_ID": "ada",
		"MODE": "fast", "IMAGE": "i", "HARNESS_NAME": "i", "AGENT_ID": "c", "AGENT_SLUG": "c", "TEMPLATE_NAME": "n"}
	for _, test := range []struct {
		event activity.Type
		data  any
		want  map[string]string
	}{
		{activity.ContainerCreating, nil, map[string]string{"PHASE": "provisioning", "PREVIOUS_PHASE": "", "ERROR_MESSAGE": ""}},
		{activity.ContainerDied, activity.ContainerDiedData{ExitCode: 3, OOMKilled: true}, map[string]string{
			"PHASE": "error", "PREVIOUS_PHASE": "running", "ERROR_MESSAGE": "why", "EXIT_CODE": "3", "OOM_KILLED": "true", "LIMIT_NAME": "memory",
		}},
		{activity.ClaimFailed, activity.ReasonData{Reason: "r"}, map[string]string{
			"PHASE": "error", "PREVIOUS_PHASE": "starting", "ERROR_MESSAGE": "why", "EVENT_MESSAGE": "why", "EXIT_CODE": "",
		}},
		{activity.ClaimActivated, activity.ClaimActivatedData{Source: "fresh"}, map[string]string{"PHASE": "running", "CLAIM_SOURCE": "fresh", "ERROR_MESSAGE": ""}},
		{activity.ClaimReleased, activity.ClaimReleasedData{Reason: "idle", ExitCode: &code}, map[string]string{
			"PHASE": "stopped", "PREVIOUS_PHASE": "stopping", "RELEASE_REASON": "idle", "EXIT_CODE": "3",
		}},
		{activity.ContainerDestroying, activity.ContainerDestroyingData{PreviousState: "creating"}, map[string]string{"PHASE": "stopping", "PREVIOUS_PHASE": "starting"}},
		{activity.ContainerDestroying, activity.ContainerDestroyingData{PreviousState: "idle"}, map[string]string{"PHASE": "stopping", "PREVIOUS_PHASE": "running"}},
		{activity.ContainerUnhealthy, nil, map[string]string{"PHASE": "", "ERROR_MESSAGE": "why"}},
	} {
		e := Envelope{Type: string(test.event), Timestamp: recorded, Seq: 7, Message: "why", Container: "c", Tenant: "ada"}
		if test.data != nil {
			e.Data = activity.Data(test.data)
		}
		r := New(nil, &fakeRecorder{}, nil, nil)
		a, err := r.EventAttempt(t.Context(), hooks.Hook{Action: hooks.Command{}}, hooks.Run{ID: "r", Container: "c", Tenant: "ada", Event: string(test.event)},
			&workload.Workload{Name: "n", Image: "i", Environment: map[string]string{"IMAGE": "of the file", "MODE": "fast"}}, e)
		require.NoError(t, err)
		for _, want := range []map[string]string{common, test.want} {
			for name, text := range want {
				value, ok := a.Lookup(name)
				require.True(t, ok, name)
				require.Equal(t, text, value.Text, "%s of %s", name, test.event)
			}
		}
		value, _ := a.Lookup("ERROR_MESSAGE")
		require.Equal(t, variables.Untrusted, value.Class, "a tenant can cause the text")
		var envelope Envelope
		require.NoError(t, json.Unmarshal(a.Envelope, &envelope))
		require.Equal(t, "r", envelope.RunID)
	}
}

// Every change of state has a phase, and the one before.
func TestEveryStateChangeHasItsPhase(t *testing.T) {
	changes, ok := hooks.EventAliasOf("phase-change")
	require.True(t, ok)
	got := map[string]string{}
	for _, e := range changes.Types {
		supplied := variablesOf(Envelope{Type: e})
		got[e] = supplied["PREVIOUS_PHASE"] + " → " + supplied["PHASE"]
	}
	require.Equal(t, map[string]string{
		"container.creating":   " → provisioning",
		"container.created":    "starting → running",
		"container.claimed":    "running → running",
		"container.wiped":      "running → running",
		"container.released":   "running → running",
		"container.died":       "running → error",
		"container.destroying": "running → stopping",
		"container.destroyed":  "stopping → stopped",
		"claim.requested":      " → starting",
		"claim.activated":      "starting → running",
		"claim.failed":         "starting → error",
		"claim.releasing":      "running → stopping",
		"claim.released":       "stopping → stopped",
		"claim.release_failed": "stopping → error",
	}, got)
	require.Len(t, phases, len(changes.Types))
}

// A variable of the trusted class has what Hostler chose, never what an event's
// data has of a tenant: the reason of a failed claim has what a command printed.
func TestEventVariablesAreTrusted(t *testing.T) {
	data, err := json.Marshal(map[string]any{
		"reason": "x", "source": "x", "exit_code": 3, "oom_killed": true, "phase": "x", "tenant_id": "x", "TENANT_ID": "x", "timestamp": "x",
	})
	require.NoError(t, err)
	for event, want := range map[string][]string{
		"claim.released":       {"RELEASE_REASON", "EXIT_CODE", "OOM_KILLED"},
		"claim.activated":      {"CLAIM_SOURCE"},
		"container.claimed":    {"CLAIM_SOURCE"},
		"container.died":       {"EXIT_CODE", "OOM_KILLED"},
		"claim.failed":         nil,
		"claim.release_failed": nil,
		"container.destroying": nil,
		"container.destroyed":  nil,
		"hook.failed":          nil,
		"agent.task_completed": nil,
	} {
		a, err := New(nil, &fakeRecorder{}, nil, nil).EventAttempt(t.Context(), hooks.Hook{Action: hooks.Command{}}, hooks.Run{ID: "r", Event: event},
			&workload.Workload{}, Envelope{Type: event, Data: data, Untrusted: strings.HasPrefix(event, "agent.")})
		require.NoError(t, err)
		for _, name := range []string{"TENANT_ID", "PHASE", "TIMESTAMP"} {
			v, _ := a.Lookup(name)
			require.NotEqual(t, "x", v.Text, name)
		}
		for _, name := range []string{"RELEASE_REASON", "CLAIM_SOURCE", "EXIT_CODE", "OOM_KILLED"} {
			v, ok := a.Lookup(name)
			require.True(t, ok, name)
			require.Equal(t, variables.Trusted, v.Class, name)
			require.Equal(t, slices.Contains(want, name), v.Text != "", "%s of %s", name, event)
		}
	}
}

// What a tenant's program sent is in the variables of their names, untrusted, and
// what it did not send is empty.
func TestPublishedVariables(t *testing.T) {
	for name, test := range map[string]struct {
		event, data string
		want        map[string]string
	}{
		"all": {"agent.task_completed", `{"task": "t", "task_summary": "s", "assistant_text": "a", "tool_name": "grep", "error_message": "e", "activity": "idle",
			"previous_activity": "thinking", "limit_name": "turns", "limit_count": 50, "other": "x"}`, map[string]string{
			"TASK": "t", "TASK_SUMMARY": "s", "ASSISTANT_TEXT": "a", "TOOL_NAME": "grep", "ERROR_MESSAGE": "e", "ACTIVITY": "idle",
			"PREVIOUS_ACTIVITY": "thinking", "LIMIT_NAME": "turns", "LIMIT_COUNT": "50",
		}},
		"of other types":  {"custom.x", `{"task": {"a": [1]}, "limit_count": 1e999, "tool_name": null, "activity": true}`, map[string]string{"TASK": `{"a": [1]}`, "LIMIT_COUNT": "1e999", "ACTIVITY": "true"}},
		"other names":     {"agent.x", `{"Task": "x", "TASK": "x", "tAsK": "x"}`, nil},
		"an error":        {"agent.error", `{}`, map[string]string{"ERROR_MESSAGE": "m"}},
		"an error's text": {"agent.error", `{"error_message": "e"}`, map[string]string{"ERROR_MESSAGE": "e"}},
		"a list":          {"agent.x", `["task"]`, nil},
		"nothing":         {"agent.x", ``, nil},
	} {
		a, err := New(nil, &fakeRecorder{}, nil, nil).EventAttempt(t.Context(), hooks.Hook{Action: hooks.Command{}}, hooks.Run{ID: "r", Event: test.event},
			&workload.Workload{}, Envelope{Type: test.event, Message: "m", Data: json.RawMessage(test.data), Untrusted: true})
		require.NoError(t, err)
		for _, variable := range []string{
			"TASK", "TASK_SUMMARY", "ASSISTANT_TEXT", "TOOL_NAME", "ERROR_MESSAGE", "ACTIVITY", "PREVIOUS_ACTIVITY", "LIMIT_NAME", "LIMIT_COUNT",
		} {
			v, ok := a.Lookup(variable)
			require.True(t, ok, variable)
			require.Equal(t, variables.Untrusted, v.Class, variable)
			require.Equal(t, test.want[variable], v.Text, "%s: %s", name, variable)
		}
		require.Contains(t, string(a.Envelope), `"untrusted":true`)
	}
}

// The end of a session and the points of a claim have its last activity.
func TestLastActivity(t *testing.T) {
	src := source{trusted: trustedOf(hooks.Run{ID: "r"}, Subject{Activity: "thinking"})}
	v, ok := src.lookup("ACTIVITY")
	require.True(t, ok)
	require.Equal(t, variables.Value{Text: "thinking", Class: variables.Untrusted}, v)
	require.Equal(t, "blocked", variablesOf(Envelope{Type: "claim.released", Data: json.RawMessage(`{"activity": "blocked"}`)})["ACTIVITY"])
	require.Empty(t, variablesOf(Envelope{Type: "claim.failed", Data: json.RawMessage(`{"activity": "blocked"}`)})["ACTIVITY"])
}
