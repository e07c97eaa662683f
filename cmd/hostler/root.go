package main

import (
	"github.com/spf13/cobra"
)

// newRoot returns the root command with all others.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "hostler",
		Short: "Pools of warm containers: claim one, use it, release it",
		Long: `Hostler keeps pools of warm containers, assigns one to a tenant in milliseconds,
runs the workload author's hooks in it at every point of its lifecycle, reclaims
it at the release, and records every event.

An id may be written as its beginning or its end, of at least 4 characters.

` + exitHelp,
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
		Version:           version(),
		Args:              refuseArguments,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("hostler {{.Version}}\n")
	root.AddCommand(
		newValidateCmd(),
		newSchemaCmd(),
		newApplyCmd(),
		newDiffCmd(),
		newDeleteCmd(),
		newGetCmd(),
		newDescribeCmd(),
		newClaimCmd(),
		newReleaseCmd(),
		newExtendCmd(),
		newTouchCmd(),
		newExecCmd(),
		newKillCmd(),
		newSyncCmd(),
		newQuotaCmd(),
		newMemoryCmd(),
		newCpCmd(),
		newFilesCmd(),
		newPortForwardCmd(),
		newLinkCmd(),
		newSnapshotsCmd(),
		newWaitCmd(),
		newSignalCmd(),
		newScaleCmd(),
		newDrainCmd(),
		newRetryCmd(),
		newDiscardCmd(),
		newGroupCmd("hooks", "Work with hooks", newReplayCmd(), newHooksTestCmd()),
		newEventsCmd(),
		newGroupCmd("event", "Publish events", newPublishCmd()),
		newActivityCmd(),
		newLogsCmd(),
		newLoginCmd(),
		newLogoutCmd(),
		newContextCmd(),
		newKeyCmd(),
		newTokenCmd(),
		newBindingCmd(),
		newWhoAmICmd(),
		newCanICmd(),
		newDoctorCmd(),
		newVersionCmd(),
	)
	root.AddCommand(newServerCommands()...)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	useUsageErrors(root)
	return root
}

// useUsageErrors turns errors in flags and arguments into usage errors, in every
// command.
func useUsageErrors(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(flagError)
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return argumentError(cmd, args, err)
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		useUsageErrors(sub)
	}
}

// newGroupCmd returns a command that only has subcommands.
func newGroupCmd(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: refuseArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return usagef(cmd, "name a subcommand") },
	}
	cmd.AddCommand(subs...)
	return cmd
}
