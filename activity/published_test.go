package activity

import (
	"errors"
	"strings"
	"testing"
)

// A tenant's program publishes under agent and custom, and under no name that
// could be taken for an event of Hostler.
func TestPublishedType(t *testing.T) {
	for name, want := range map[string]Type{
		"agent.task_completed":              "agent.task_completed",
		"agent.blocking.start":              "agent.blocking.start",
		"custom.x":                          "custom.x",
		"deploy":                            "custom.deploy",
		"deploy.finished-2":                 "custom.deploy.finished-2",
		"agents.x":                          "custom.agents.x",
		"agentx":                            "custom.agentx",
		"claims.released":                   "custom.claims.released",
		"custom.claim.released":             "custom.claim.released",
		strings.Repeat("a", 121):            Type("custom." + strings.Repeat("a", 121)),
		"agent." + strings.Repeat("a", 122): Type("agent." + strings.Repeat("a", 122)),
	} {
		got, err := PublishedType(name)
		if err != nil || got != want || !IsPublished(got) {
			t.Errorf("PublishedType(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
	for _, name := range []string{
		"", ".", "agent", "custom", "agent.", ".agent", "agent..x", "Agent.x", "agent.X", "CLAIM.released", "claim.released", "claim", "hook.x", "sync.x",
		"wait.started", "exec.started", "log.truncated", "agent.activity_changed", "agent.x ", " agent.x", "agent.x\n", "agent.\u0131", "\u0441laim.released", "clai\u0301m.x",
		"agent.*", "agent.x;drop", "1.x", "agent.1", "agent.x\x1b[2J", "agent.x\x00", strings.Repeat("a", 122), "agent." + strings.Repeat("a", 123),
		strings.Repeat("a.", 1<<20),
	} {
		if got, err := PublishedType(name); !errors.Is(err, ErrType) {
			t.Errorf("PublishedType(%.40q) = %q, %v; want ErrType", name, got, err)
		} else if len(err.Error()) > 400 {
			t.Errorf("PublishedType(%.40q): the error has %d bytes", name, len(err.Error()))
		}
	}
	for _, typ := range Types() {
		if IsPublished(typ) != (typ == AgentActivityChanged) {
			t.Errorf("IsPublished(%s) = %v", typ, IsPublished(typ))
		}
		if _, err := PublishedType(string(typ)); err == nil {
			t.Errorf("a tenant's program can publish %s", typ)
		}
	}
}
