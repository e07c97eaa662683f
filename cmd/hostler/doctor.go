package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

func newDoctorCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the installation, and report problems with hints",
		Long: `Have the server check itself, and report each problem with a hint: containers
that only the engine or only the database has, containers, claims and hooks that
are stuck in transition, waits that do not end, failing releases, pools that
cannot be filled, the engine, the database, the disk. The command changes nothing.
The exit status is 0 when there is no problem, and 1 otherwise.`,
		Args: cobra.NoArgs,
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, _ []string) error {
			report, err := c.Doctor(ctx)
			if err != nil {
				return err
			}
			err = r.printResult(cmd.OutOrStdout(), report, func(w io.Writer) error { return printReport(w, report) })
			if err == nil && !report.OK {
				return &exitError{code: exitFailure}
			}
			return err
		}),
	}
	r.flags(cmd)
	return cmd
}

func printReport(w io.Writer, r client.Report) error {
	marks := map[client.Severity]string{client.SeverityError: "error:  ", client.SeverityWarning: "warning:"}
	if hasColors(w) {
		marks = map[client.Severity]string{client.SeverityError: red + "error:  " + resetColor, client.SeverityWarning: yellow + "warning:" + resetColor}
	}
	engine := "unavailable"
	if r.Engine.Reachable {
		engine = fmt.Sprintf("answers in %.0f ms, has %s", r.Engine.Duration, plural(r.Engine.Containers, "container"))
	}
	lines := []string{
		"engine    " + engine,
		fmt.Sprintf("database  %s %s, schema %d, %s", r.Database.Kind, r.Database.Version, r.Database.Schema, formatSize(uint64(max(0, r.Database.Bytes)))),
		fmt.Sprintf("disk      %s: %s of %s free", r.Disk.Path, formatSize(r.Disk.Free), formatSize(r.Disk.Total)),
	}
	for _, f := range r.Findings {
		// A message may have a hook's output, which may have many lines.
		lines = append(lines, "", marks[f.Severity]+" "+oneLine(f.Message), "         "+oneLine(f.Hint))
	}
	result := "no problems found"
	if n := len(r.Findings); n == 1 {
		result = "1 problem found"
	} else if n > 1 {
		result = fmt.Sprintf("%d problems found", n)
	}
	_, err := fmt.Fprintln(w, strings.Join(append(lines, "", result), "\n"))
	return err
}

// formatSize formats a number of bytes for people.
func formatSize(n uint64) string {
	const step = 1024
	if n < step {
		return fmt.Sprintf("%d B", n)
	}
	x := float64(n)
	unit := ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		if x /= step; x < step {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", x, unit)
}
