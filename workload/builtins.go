package workload

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hostler/hostler/hooks"
)

// builtins are the names of the functions of the server, with the function that
// each stands for. Package hooks/builtin has them.
var builtins = []struct{ name, function string }{
	{name: "log", function: "log"},
	{name: "persist_message", function: "log"},
	{name: "persist_session_start", function: "log"},
	{name: "persist_session_end", function: "log"},
	{name: "persist_branch_provenance", function: "log"},
	{name: "log_api_metrics", function: "log"},
	{name: "log_tool_call", function: "log"},
	{name: "log_tool_use", function: "log"},
	{name: hooks.GuardDestructive, function: hooks.GuardDestructive},
	{name: hooks.GuardPaths, function: hooks.GuardPaths},
}

// deprecatedBuiltins are names that another name replaces.
var deprecatedBuiltins = map[string]string{"log_tool_use": "log_tool_call"}

// builtinFunction returns the function that a name stands for, "" for none.
func builtinFunction(name string) string {
	for _, b := range builtins {
		if b.name == name {
			return b.function
		}
	}
	return ""
}

// Builtins returns the names of the functions that a hook can call.
func Builtins() []string {
	var names []string
	for _, b := range builtins {
		names = append(names, b.name)
	}
	return names
}

// builtinOptions has the options of each function, with the values that each may
// have; nil: any text.
var builtinOptions = map[string]map[string][]string{
	"log":                  {"level": {"debug", "info", "warn", "error"}, "message": nil},
	hooks.GuardDestructive: {},
	hooks.GuardPaths:       {"allowed": nil},
}

// checkWith checks the options of a builtin.
func (d *decoder) checkWith(h placedHook) {
	all := builtinOptions[builtinFunction(string(*h.Builtin))]
	for _, name := range sortedKeys(h.With) {
		at := keyOf(h.actionAt+".with", name)
		values, ok := all[name]
		text, isText := h.With[name].(string)
		switch {
		case d.invalid[at]:
		case !ok && len(all) == 0:
			d.addErrorAt(at, "is not an option of "+string(*h.Builtin), "remove it: it has none")
		case !ok:
			d.addErrorAt(at, "is not an option of "+string(*h.Builtin), "its options are "+strings.Join(sortedKeys(all), ", "))
		case builtinFunction(string(*h.Builtin)) == hooks.GuardPaths:
			d.checkDirectories(at, h.With[name])
		case !isText:
			d.addErrorAt(at, "is not text", "put it in quotes")
		case values != nil && !slices.Contains(values, text):
			d.addErrorAt(at, fmt.Sprintf("is %q, which is not allowed", truncate(text)), "write one of "+strings.Join(values, ", "))
		}
	}
}

// maxAllowed bounds the directories of guard_paths.
const maxAllowed = 32

// checkDirectories checks the option allowed of guard_paths.
func (d *decoder) checkDirectories(at string, value any) {
	const hint = "write a list of absolute paths, such as [/workspace]"
	list, ok := value.([]any)
	switch {
	case !ok:
		d.addErrorAt(at, "is not a list", hint)
		return
	case len(list) == 0:
		d.addErrorAt(at, "is empty", hint)
		return
	case len(list) > maxAllowed:
		d.addErrorAt(at, fmt.Sprintf("has %d directories, more than %d", len(list), maxAllowed), "name a directory that has several of them")
		return
	}
	for i, e := range list {
		dir, _ := e.(string)
		switch child := elementOf(at, i); {
		case !strings.HasPrefix(dir, "/") || strings.ContainsRune(dir, 0):
			d.addErrorAt(child, "is not an absolute path", hint)
		case path.Clean(dir) != dir:
			d.addErrorAt(child, fmt.Sprintf("is %q, which is not in its shortest form", truncate(dir)), "write "+truncate(path.Clean(dir)))
		}
	}
}

// checkBuiltin returns why a name is not that of a function for points and events; ""
// if it is.
func checkBuiltin(name string) (message, hint string) { return checkBuiltinFor(name, "") }

// checkBuiltinFor returns why a name is not that of a function for a gate; "" if it
// is.
func checkBuiltinFor(name string, gate hooks.Gate) (message, hint string) {
	known := builtinsFor(gate)
	if slices.Contains(known, name) {
		return "", ""
	}
	hint = "known ones are " + strings.Join(known, ", ")
	switch {
	case builtinFunction(name) != "" && gate == "":
		return fmt.Sprintf("is %q, a guard, which only gates have", name), "write it at a gate, such as " + string(hooks.ExecBefore)
	case builtinFunction(name) != "":
		return fmt.Sprintf("is %q, which has nothing to judge at %s", name, gate), hint
	}
	if near := suggest(name, known); near != "" {
		hint = "did you mean " + near + "?"
	}
	return fmt.Sprintf("is %q, which is not a builtin", truncate(name)), hint
}
