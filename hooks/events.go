package hooks

import (
	"encoding/json"
	"slices"
	"strings"
)

// EventAlias is a name that event hooks can give instead of the types of events
// that it stands for.
type EventAlias struct {
	Name    string
	Aliases []string // further spellings
	Types   []string // some perhaps of later versions; nil: every type
	// Only has the field of the data that an event of a type must have, neither
	// false nor 0 nor empty. Other types need none.
	Only map[string]string
	Doc  string
}

var eventAliases = []EventAlias{
	{
		Name: "phase-change", Aliases: []string{"state_change"},
		Types: []string{
			"container.creating", "container.created", "container.claimed", "container.wiped", "container.released",
			"container.died", "container.destroying", "container.destroyed",
			"claim.requested", "claim.activated", "claim.failed", "claim.releasing", "claim.released", "claim.release_failed",
		},
		Doc: "Every change of state of a container or a claim.",
	},
	{Name: "activity-change", Aliases: []string{"activity_change"}, Types: []string{"agent.activity_changed"}, Doc: "The tenant's program does something else."},
	{
		Name: "task-completed", Aliases: []string{"response-complete", "agent-end"}, Types: []string{"agent.task_completed"},
		Doc: "The tenant's program has completed a task.",
	},
	{
		Name: "limits-exceeded", Types: []string{"agent.limits_exceeded", "container.died"}, Only: map[string]string{"container.died": "oom_killed"},
		Doc: "A limit was exceeded. Of container.died: when it was out of memory.",
	},
	{
		Name: "error", Types: []string{"claim.failed", "claim.release_failed", "container.died", "container.unhealthy", "agent.error"},
		Doc: "A claim or its release has failed, or a container has died or is unhealthy.",
	},
	{Name: "session-end", Aliases: []string{"session.end"}, Types: []string{"claim.released"}, Doc: "A claim was released."},
	{Name: "post_destroy", Types: []string{"container.destroyed"}, Doc: "A container is gone, also after a crash."},
	{Name: "tool-start", Types: []string{"exec.started"}, Doc: "A command of a tenant starts."},
	{Name: "tool-end", Aliases: []string{"tool.post"}, Types: []string{"exec.completed"}, Doc: "A command of a tenant has ended with exit code 0."},
	{Name: "tool.error", Types: []string{"exec.failed"}, Doc: "A command of a tenant has ended otherwise."},
	{Name: "model-start", Types: []string{"request.started"}, Doc: "A request of a tenant has started."},
	{Name: "model-end", Aliases: []string{"api.post_call"}, Types: []string{"request.completed"}, Doc: "A request to a port of a container has completed."},
	{
		Name: "artifact.created", Types: []string{"sync.completed", "file.written"}, Only: map[string]string{"sync.completed": "files"},
		Doc: "Files of a tenant were stored.",
	},
	{Name: "message.add", Aliases: []string{"log_append"}, Doc: "Every event."},
	{Name: "agent-start", Aliases: []string{"branch.create"}, Types: []string{"agent.turn_started"}, Doc: "The tenant's program has started a turn."},
	{Name: "prompt-submit", Types: []string{"agent.prompt_submitted"}, Doc: "A prompt was submitted."},
	{Name: "notification", Types: []string{"agent.notification"}, Doc: "The tenant's program notifies its user."},
}

// EventAliases returns all aliases, in the order of the documentation.
func EventAliases() []EventAlias { return slices.Clone(eventAliases) }

// EventAliasOf returns the alias with a name, in any spelling.
func EventAliasOf(name string) (EventAlias, bool) {
	i := slices.IndexFunc(eventAliases, func(a EventAlias) bool { return a.Name == name || slices.Contains(a.Aliases, name) })
	if i < 0 {
		return EventAlias{}, false
	}
	return eventAliases[i], true
}

// Matches reports whether the hook is for an event of a type with data, a JSON
// object or nothing.
func (h EventHook) Matches(eventType string, data []byte) bool {
	subject, _, _ := strings.Cut(eventType, ".")
	return slices.ContainsFunc(h.On, func(on string) bool {
		if on == eventType || on == subject {
			return true
		}
		a, ok := EventAliasOf(on)
		return ok && a.matches(eventType, data)
	})
}

func (a EventAlias) matches(eventType string, data []byte) bool {
	if a.Types != nil && !slices.Contains(a.Types, eventType) {
		return false
	}
	only, ok := a.Only[eventType]
	return !ok || isSet(data, only)
}

// isSet reports whether a JSON object has a field that is neither false nor 0
// nor empty.
func isSet(data []byte, field string) bool {
	var all map[string]json.RawMessage
	if json.Unmarshal(data, &all) != nil {
		return false
	}
	return !slices.Contains([]string{"", "null", "false", "0", `""`, "[]", "{}"}, string(all[field]))
}
