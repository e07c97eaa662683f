package main

import (
	"github.com/spf13/cobra"
)

// newRoot is the whole command line.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "hostler",
		Short: "Pools of warm containers: claim one, use it, give it back",
		Long: `Hostler keeps pools of warm containers, hands one to a tenant in milliseconds,
runs the workload author's hooks inside it at every point of its life, takes it
back, and records all that happened.

` + exitHelp,
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
		Args:              cobra.NoArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(
		newServeCmd(),
		newDemoCmd(),
		newDemoAppCmd(),
		newValidateCmd(),
		newSchemaCmd(),
		newApplyCmd(),
		newDeleteCmd(),
		newGetCmd(),
		newClaimCmd(),
		newReleaseCmd(),
		newSyncCmd(),
		newSnapshotsCmd(),
		newScaleCmd(),
		newDrainCmd(),
		newEventsCmd(),
		newLogsCmd(),
		newDoctorCmd(),
		newBackupCmd(),
		newRestoreDatabaseCmd(),
		newVersionCmd(),
	)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	useUsageErrors(root)
	return root
}

// useUsageErrors makes what is wrong with flags and arguments a usage error in every
// command.
func useUsageErrors(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usagef(cmd, "%v", err) })
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usagef(cmd, "%v", err)
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		useUsageErrors(sub)
	}
}

// newGroupCmd is a command that only holds others.
func newGroupCmd(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return usagef(cmd, "say what: see the commands below it") },
	}
	cmd.AddCommand(subs...)
	return cmd
}
