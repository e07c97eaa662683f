package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// Each command that the documentation names in code exists, with its subcommand.
func TestDocsNameCommands(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	examples, err := filepath.Glob("../../examples/*/README.md")
	require.NoError(t, err)
	found := 0
	for _, page := range append(append(pages, examples...), "../../README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, words := range commandsIn(string(text)) {
			found++
			// state-format.md has labels of derived keys, such as "hostler state pack".
			require.True(t, words[0] == "state" || isCommand(words), "%s: hostler %s", page, strings.Join(words, " "))
		}
	}
	require.Greater(t, found, 100)
	require.False(t, isCommand([]string{"create", "key"}))
	require.False(t, isCommand([]string{"key", "make"}))
	require.Equal(t, [][]string{{"create", "key"}}, commandsIn("`hostler create key NAME`"))
}

// namedCommand is a command line in code: after a backquote, a prompt, the beginning of
// a line or of a substitution, or a comment of a configuration file.
var namedCommand = regexp.MustCompile("(?m)(?:`|^\\$ |^|# |\\| |\\$\\()(?:bin/)?hostler ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?")

func commandsIn(page string) (all [][]string) {
	for _, m := range namedCommand.FindAllStringSubmatch(page, -1) {
		words := []string{m[1]}
		if m[2] != "" {
			words = append(words, m[2])
		}
		all = append(all, words)
	}
	return all
}

// isCommand reports whether words begin with a command. What follows one without
// subcommands is its argument, or text.
func isCommand(words []string) bool {
	cmd := newRoot()
	for _, word := range words {
		next := subcommand(cmd, word)
		if next == nil {
			return cmd.HasParent() && !cmd.HasAvailableSubCommands()
		}
		cmd = next
	}
	return true
}

func subcommand(cmd *cobra.Command, word string) *cobra.Command {
	for _, sub := range cmd.Commands() {
		if sub.Name() == word || sub.HasAlias(word) {
			return sub
		}
	}
	return nil
}
