package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks/builtin"
	"github.com/hostler/hostler/workload"
)

// A workload file accepts the names and the options of the functions that the
// server has.
func TestFileAcceptsBuiltins(t *testing.T) {
	for _, name := range builtin.Names() {
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
	require.Len(t, workload.Builtins(), len(builtin.Names()))
}
