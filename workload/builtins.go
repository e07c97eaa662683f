package workload

import (
	"fmt"
	"strings"
)

// builtins are the names of the functions of the server, with the function that
// each stands for. Package hooks/builtin has them; a test compares the two.
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

func builtinNames() []string {
	var names []string
	for _, b := range builtins {
		names = append(names, b.name)
	}
	return names
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
