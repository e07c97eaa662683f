package main

import "github.com/spf13/cobra"

// newServerCommands returns the commands that run a server or use its files.
func newServerCommands() []*cobra.Command {
	return []*cobra.Command{newServeCmd(), newDemoCmd(), newDemoAppCmd(), newTryCmd(), newBackupCmd(), newRestoreDatabaseCmd()}
}
