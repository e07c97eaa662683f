package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/workload"
)

// refuseArguments is cobra.NoArgs with a suggestion for a misspelt subcommand.
func refuseArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if other, ok := otherCommand(cmd, args); ok {
		text += fmt.Sprintf(": did you mean `%s`?", other)
	} else if near := nearCommand(cmd, args[0]); near != "" {
		text += fmt.Sprintf(": did you mean `%s %s`?", cmd.CommandPath(), near)
	}
	return usagef(cmd, "%s", text)
}

// otherCommands are the commands that words stand for which other programs use.
var otherCommands = map[string]string{
	"hostler create":            "hostler apply -f FILE",
	"hostler create key":        "hostler key create NAME",
	"hostler create token":      "hostler token create",
	"hostler list":              "hostler get claims",
	"hostler ps":                "hostler get containers",
	"hostler status":            "hostler doctor",
	"hostler stop":              "hostler release CLAIM",
	"hostler get bindings":      "hostler binding list",
	"hostler get keys":          "hostler key list",
	"hostler get quotas":        "hostler quota list",
	"hostler get snapshots":     "hostler snapshots",
	"hostler describe hook":     "hostler logs RUN",
	"hostler describe run":      "hostler logs RUN",
	"hostler describe workload": "hostler describe pool WORKLOAD",
}

// otherCommand returns the command that words of a command line stand for.
func otherCommand(cmd *cobra.Command, args []string) (string, bool) {
	for n := min(len(args), 2); n > 0; n-- {
		if other, ok := otherCommands[cmd.CommandPath()+" "+strings.Join(args[:n], " ")]; ok {
			if len(args) > n && !strings.HasPrefix(args[n], "-") {
				other = strings.Replace(other, "WORKLOAD", args[n], 1)
			}
			return other, true
		}
	}
	return "", false
}

// flagError is a usage error of a flag. One that follows an unknown command may be
// that command's.
func flagError(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); cmd.HasAvailableSubCommands() && len(words) > 0 {
		return refuseArguments(cmd, words)
	}
	return usagef(cmd, "%v", err)
}

// nearCommand returns the subcommand that a misspelt word may stand for, or "".
func nearCommand(cmd *cobra.Command, word string) string {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(append(names, sub.Name()), sub.Aliases...)
		}
	}
	return workload.Suggest(word, names)
}

// argumentError returns what is wrong with the number of arguments in the words of
// the usage line.
func argumentError(cmd *cobra.Command, args []string, err error) error {
	if _, isUsage := errors.AsType[*exitError](err); isUsage {
		return err
	}
	var missing []string
	all := argumentsOf(cmd)
	for i, a := range all {
		if i >= len(args) && !a.optional {
			missing = append(missing, a.name)
		}
	}
	switch {
	case len(missing) > 0:
		return usagef(cmd, "name the %s: %s", strings.Join(missing, " and the "), cmd.UseLine())
	case len(args) > len(all):
		return usagef(cmd, "%q is one argument too many: %s", args[len(all)], cmd.UseLine())
	}
	return usagef(cmd, "%v", err)
}
