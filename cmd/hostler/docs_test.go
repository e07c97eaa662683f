package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// docs/cli.md is what the commands say of themselves. Run with -update after a
// change.
func TestDocs(t *testing.T) {
	var b strings.Builder
	b.WriteString("# The command line\n\nWritten by `go test ./cmd/hostler -run TestDocs -update` from the commands' own help.\n\n")
	b.WriteString("```\n" + exitHelp + "\n```\n\n")
	b.WriteString("The server is named by `--server` or `HOSTLER_SERVER`, the API key by `--api-key-file`, `HOSTLER_API_KEY_FILE` or, itself, by `HOSTLER_API_KEY`.\n")
	b.WriteString("Colours and progress are shown on terminals only, and not with `NO_COLOR`.\n")
	describe(&b, newRoot())
	// This default depends on who runs the test.
	text := strings.ReplaceAll(b.String(), `"`+defaultData()+`"`, "/var/lib/hostler for root, else below the home directory")
	golden(t, filepath.Join("..", "..", "docs", "cli.md"), text)
}

func describe(b *strings.Builder, cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.Hidden || sub.Name() == "help" || sub.Name() == "completion" {
			continue
		}
		if !sub.HasSubCommands() || sub.Long != "" {
			text := sub.Long
			if text == "" {
				text = sub.Short + "."
			}
			fmt.Fprintf(b, "\n## %s\n\n%s\n\n```\n%s\n", sub.CommandPath(), text, sub.UseLine())
			if flags := sub.NonInheritedFlags().FlagUsages(); flags != "" {
				b.WriteString("\n" + flags)
			}
			b.WriteString("```\n")
			if sub.HasExample() {
				fmt.Fprintf(b, "\nFor example: `%s`\n", strings.TrimSpace(sub.Example))
			}
		}
		describe(b, sub)
	}
}
