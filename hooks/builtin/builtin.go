// Package builtin has the functions of the server that hooks call by name: the
// table of them, and the executor of actions of kind builtin.
//
// A function runs in the server. It returns soon after its context ends, and its
// panic fails the attempt only. To add one, add a row to the table.
package builtin

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sort"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
)

// Function is a row of the table.
type Function struct {
	Name string
	// Aliases are further names. Deprecated are those that a file should no longer
	// use.
	Aliases    []string
	Deprecated []string
	Doc        string

	check func(with map[string]any) error
	call  func(ctx context.Context, log *slog.Logger, c Call) (Result, error)
}

// Call is what a function gets.
type Call struct {
	runner.Context
	With     map[string]any // the options of the file
	Envelope []byte         // the JSON that describes what happened
	Use      *Use           // of a gate; nil elsewhere
}

// Use is what a tenant is about to do, for the guards of gates.
type Use struct {
	Gate        hooks.Gate
	Args        []string          // of a command
	Environment map[string]string // of a command
	Workdir     string            // of a command; empty for the container's own
	Path        string            // of a file
	Workspace   string            // of the workload; empty if only the container knows it
}

// Result is what a function returns if it did not fail.
type Result struct {
	// Stop reports whether the point ends as a success without the hooks that
	// follow.
	Stop bool
	// Within are the directories that the file of a Use must be in; none: anywhere.
	Within []string
}

// functions is the table, in order of the names.
var functions = []Function{
	{
		Name: "log",
		Aliases: []string{
			"persist_message", "persist_session_start", "persist_session_end", "persist_branch_provenance",
			"log_api_metrics", "log_tool_call",
		},
		Deprecated: []string{"log_tool_use"},
		Doc: "Writes one record to the server's log: the hook, its point, and what happened. " +
			"Options: level (debug, info, warn or error; default info) and message.",
		check: checkLog,
		call:  callLog,
	},
	{
		Name: hooks.GuardDestructive,
		Doc: "Refuses a command that destroys what cannot be restored, such as rm -rf, in whatever way it is written. " +
			"It protects against accidents and is not a boundary. No options.",
		check: checkNone,
		call:  guardDestructive,
	},
	{
		Name: hooks.GuardPaths,
		Doc: "Refuses files outside of some directories, wherever links lead, and commands that start elsewhere. " +
			"Option: allowed, a list of absolute paths; default: the workspace.",
		check: checkPaths,
		call:  guardPaths,
	},
}

// Functions returns the table.
func Functions() []Function { return slices.Clone(functions) }

// Names returns all names and aliases, sorted.
func Names() []string {
	var names []string
	for _, f := range functions {
		names = append(append(append(names, f.Name), f.Aliases...), f.Deprecated...)
	}
	sort.Strings(names)
	return names
}

// Find returns the function of a name or an alias.
func Find(name string) (Function, bool) {
	for _, f := range functions {
		if f.Name == name || slices.Contains(f.Aliases, name) || slices.Contains(f.Deprecated, name) {
			return f, true
		}
	}
	return Function{}, false
}

// IsValid reports whether name is a function or an alias of one.
func IsValid(name string) bool {
	_, ok := Find(name)
	return ok
}

// IsDeprecated reports whether name is an alias that should no longer be used.
func IsDeprecated(name string) bool {
	f, _ := Find(name)
	return slices.Contains(f.Deprecated, name)
}

// Check returns an error if the function of a name does not exist or does not
// have the options.
func Check(name string, with map[string]any) error {
	f, ok := Find(name)
	if !ok {
		return fmt.Errorf("unknown builtin %q", name)
	}
	if err := f.check(with); err != nil {
		return fmt.Errorf("builtin %q: %w", name, err)
	}
	return nil
}
