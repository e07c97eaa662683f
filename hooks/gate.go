package hooks

import (
	"slices"
	"time"
)

// Gate is a check of what a tenant is about to do in its container. The tenant's
// request waits for the hooks of the gate, and only if all of them allow it, it
// reaches the container.
type Gate string

// The gates.
const (
	ExecBefore    Gate = "exec.before"
	FileBefore    Gate = "file.before"
	RequestBefore Gate = "request.before"
)

// The functions that guard gates.
const (
	GuardDestructive = "guard_destructive"
	GuardPaths       = "guard_paths"
)

// GateRule describes a gate. It is the same for every workload. A gate is added as
// a row here, and a method of access.Gates that its use calls.
type GateRule struct {
	Gate    Gate
	Aliases []string // of other hook systems
	// Guard is the function that secure: true attaches; empty for none.
	Guard string
	// Builtins are the functions that a hook of the gate can call.
	Builtins []string
	// Doc describes what is checked. The schema and the documentation use it.
	Doc string
}

// Timeouts of a hook of a gate. The tenant waits as long.
const (
	DefaultGateTimeout = 5 * time.Second
	MaxGateTimeout     = MaxRequestTimeout
)

var gates = []GateRule{
	{
		Gate: ExecBefore, Aliases: []string{"tool.pre", "exec_pre", "PreToolUse"},
		Guard: GuardDestructive, Builtins: []string{"log", GuardDestructive, GuardPaths},
		Doc: "Before a command that a tenant runs through the API starts.",
	},
	{
		Gate: FileBefore, Guard: GuardPaths, Builtins: []string{"log", GuardPaths},
		Doc: "Before a file is read, written, removed, listed or described through the API.",
	},
	{
		Gate: RequestBefore, Aliases: []string{"api.pre_call"}, Builtins: []string{"log"},
		Doc: "Before a request or a connection reaches a port of the container through the API.",
	},
}

// Gates returns all gates, in the order of the documentation.
func Gates() []GateRule { return slices.Clone(gates) }

// Rule returns the rule of g, or the zero GateRule if g is not a gate.
func (g Gate) Rule() GateRule {
	for _, r := range gates {
		if r.Gate == g {
			return r
		}
	}
	return GateRule{}
}

// GateNamed returns the gate with a name or an alias.
func GateNamed(name string) (Gate, bool) {
	for _, r := range gates {
		if string(r.Gate) == name || slices.Contains(r.Aliases, name) {
			return r.Gate, true
		}
	}
	return "", false
}

// The decisions of a hook of a gate. Only Allow permits what the tenant wants.
const (
	Allow = "allow"
	Deny  = "deny"
)
