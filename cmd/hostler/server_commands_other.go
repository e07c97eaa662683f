//go:build !linux

package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// newServerCommands returns the commands that run a server or use its files,
// which fail here because they need Linux.
func newServerCommands() []*cobra.Command {
	var all []*cobra.Command
	for _, name := range []string{"serve", "demo", "backup", "restore"} {
		all = append(all, &cobra.Command{
			Use:                name,
			Short:              "Only on Linux",
			DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error {
				return fmt.Errorf("hostler %s needs Linux, and this is %s; run it on Linux, and name that server here with --server",
					name, runtime.GOOS)
			},
		})
	}
	return all
}
