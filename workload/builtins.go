package workload

import (
	"fmt"
	"slices"
	"strings"
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
}

// deprecatedBuiltins are names that another name replaces.
var deprecatedBuiltins = map[string]string{"log_tool_use": "log_tool_call"}

// laterBuiltins are functions that only gates have.
var laterBuiltins = []string{"guard_destructive", "guard_paths"}

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
func Builtins() []string { return builtinNames() }

func builtinNames() []string {
	var names []string
	for _, b := range builtins {
		names = append(names, b.name)
	}
	return names
}

// builtinOptions has the options of each function, with the values that each may
// have; nil: any text.
var builtinOptions = map[string]map[string][]string{
	"log": {"level": {"debug", "info", "warn", "error"}, "message": nil},
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
		case !ok:
			d.addErrorAt(at, "is not an option of "+string(*h.Builtin), "its options are "+strings.Join(sortedKeys(all), ", "))
		case !isText:
			d.addErrorAt(at, "is not text", "put it in quotes")
		case values != nil && !slices.Contains(values, text):
			d.addErrorAt(at, fmt.Sprintf("is %q, which is not allowed", truncate(text)), "write one of "+strings.Join(values, ", "))
		}
	}
}

// checkBuiltin returns why a name is not that of a function; "" if it is.
func checkBuiltin(name string) (message, hint string) {
	if builtinFunction(name) != "" {
		return "", ""
	}
	for _, later := range laterBuiltins {
		if name == later {
			return fmt.Sprintf("is %q, a guard, and this version has no gates", name), "remove it"
		}
	}
	hint = "known ones are " + strings.Join(builtinNames(), ", ")
	if near := suggest(name, builtinNames()); near != "" {
		hint = "did you mean " + near + "?"
	}
	return fmt.Sprintf("is %q, which is not a builtin", truncate(name)), hint
}
