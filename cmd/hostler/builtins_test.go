package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/builtin"
	"github.com/hostler/hostler/workload"
)

// A workload file accepts the names and the options of the functions that the
// server has.
func TestFileAcceptsBuiltins(t *testing.T) {
	guards := []string{hooks.GuardDestructive, hooks.GuardPaths}
	for _, name := range builtin.Names() {
		if slices.Contains(guards, name) {
			continue // only gates have them
		}
		w, err := workload.Parse([]byte("id: a\nimage: b\nhooks: {post_claim: [{builtin: "+name+"}]}"), "")
		require.NoError(t, err)
		require.True(t, builtin.IsValid(w.Hooks["post_claim"][0].Action.Summary()[0]))
		require.Equal(t, builtin.IsDeprecated(name), len(w.Notes) > 0, name)
	}
	for with, want := range map[string]map[string]any{
		"{}": {}, "{level: warn, message: x}": {"level": "warn", "message": "x"}, "{level: x}": {"level": "x"},
		"{level: 1}": {"level": 1}, "{message: [x]}": {"message": []any{"x"}}, "{other: x}": {"other": "x"},
	} {
		_, err := workload.Parse([]byte("id: a\nimage: b\nhooks: {post_claim: [{builtin: log, with: "+with+"}]}"), "")
		require.Equal(t, builtin.Check("log", want) == nil, err == nil, "%s: %v", with, err)
	}
	for _, name := range guards {
		w, err := workload.Parse([]byte("id: a\nimage: b\nworkspace: /w\nhooks: {exec.before: ["+name+"]}"), "")
		require.NoError(t, err)
		require.True(t, builtin.IsValid(w.Gates[hooks.ExecBefore][0].Action.Summary()[0]))
	}
	for with, want := range map[string]map[string]any{
		"{}": {}, "{allowed: [/a, /b/c]}": {"allowed": []any{"/a", "/b/c"}}, "{allowed: []}": {"allowed": []any{}}, "{allowed: /a}": {"allowed": "/a"},
		"{allowed: [a]}": {"allowed": []any{"a"}}, "{allowed: [1]}": {"allowed": []any{1}}, "{other: [/a]}": {"other": []any{"/a"}},
	} {
		_, err := workload.Parse([]byte("id: a\nimage: b\nworkspace: /w\nhooks: {file.before: [{builtin: guard_paths, with: "+with+"}]}"), "")
		require.Equal(t, builtin.Check(hooks.GuardPaths, want) == nil, err == nil, "%s: %v", with, err)
	}
	require.Error(t, builtin.Check(hooks.GuardDestructive, map[string]any{"patterns": []any{"x"}}))
	for _, r := range hooks.Gates() {
		for _, name := range r.Builtins {
			require.True(t, builtin.IsValid(name), name)
		}
	}
	require.Len(t, workload.Builtins(), len(builtin.Names()))
}
