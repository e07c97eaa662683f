package hooks

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A hook matches types, all types of a subject, and what an alias stands for;
// some aliases only with a value in the data.
func TestEventHookMatches(t *testing.T) {
	tests := []struct {
		on, event, data string
		want            bool
	}{
		{"claim.released", "claim.released", "", true},
		{"claim.released", "claim.failed", "", false},
		{"claim", "claim.failed", "", true},
		{"claim", "claims.failed", "", false},
		{"error", "container.died", `{"oom_killed":false}`, true},
		{"error", "claim.released", "", false},
		{"limits-exceeded", "container.died", `{"exit_code":137,"oom_killed":true}`, true},
		{"limits-exceeded", "container.died", `{"exit_code":137,"oom_killed":false}`, false},
		{"limits-exceeded", "container.died", "", false},
		{"artifact.created", "sync.completed", `{"files":3}`, true},
		{"artifact.created", "sync.completed", `{"files":0}`, false},
		{"artifact.created", "sync.completed", `{"files":`, false},
		{"artifact.created", "file.written", "", true},
		{"artifact.created", "file.read", "", false},
		{"tool-start", "exec.started", "", true},
		{"tool.post", "exec.completed", "", true},
		{"tool-end", "exec.failed", "", false},
		{"tool.error", "exec.failed", "", true},
		{"api.post_call", "request.completed", "", true},
		{"exec", "exec.failed", "", true},
		{"session.end", "claim.released", "", true},
		{"log_append", "pool.created", "", true},
		{"nothing", "pool.created", "", false},
		{"agent", "agent.task_completed", "", true},
		{"agent", "agents.x", "", false},
		{"custom", "custom.deploy.done", "", true},
		{"custom.deploy", "custom.deploy.done", "", false},
		{"custom.deploy.done", "custom.deploy.done", "", true},
		{"task-completed", "agent.task_completed", "", true},
		{"response-complete", "agent.task_completed", "", true},
		{"agent-end", "agent.task_completed", "", true},
		{"activity_change", "agent.activity_changed", "", true},
		{"limits-exceeded", "agent.limits_exceeded", "", true},
		{"error", "agent.error", "", true},
		{"agent-start", "agent.turn_started", "", true},
		{"branch.create", "agent.turn_started", "", true},
		{"prompt-submit", "agent.prompt_submitted", "", true},
		{"notification", "agent.notification", "", true},
		{"claim", "custom.claim.released", "", false},
		{"session-end", "custom.claim.released", "", false},
	}
	for _, tt := range tests {
		h := EventHook{On: []string{"workload.deleted", tt.on}}
		require.Equal(t, tt.want, h.Matches(tt.event, []byte(tt.data)), "%s: %s %s", tt.on, tt.event, tt.data)
	}
}

// No name stands for two aliases.
func TestEventAliasesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range EventAliases() {
		require.NotEmpty(t, a.Doc)
		for _, name := range append(a.Aliases, a.Name) {
			require.False(t, seen[name], name)
			seen[name] = true
			found, ok := EventAliasOf(name)
			require.True(t, ok)
			require.Equal(t, a, found)
		}
	}
}
