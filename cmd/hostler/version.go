package main

import (
	"fmt"
	"io"
	goruntime "runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// built is set when a release is built: -ldflags "-X main.built=v1.2.3".
var built string

// version returns the version of this program: the release, or the commit that
// it is built from.
func version() string {
	if built != "" {
		return built
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

func newVersionCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := map[string]string{"version": version(), "go": goruntime.Version(), "platform": goruntime.GOOS + "/" + goruntime.GOARCH}
			return r.printResult(cmd.OutOrStdout(), v, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "hostler %s (%s, %s)\n", v["version"], v["go"], v["platform"])
				return err
			})
		},
	}
	r.outputFlag(cmd)
	return cmd
}
