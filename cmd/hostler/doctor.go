package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/api/client"
	"github.com/hostler/hostler/doctor"
)

func newDoctorCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what is wrong with the installation, and what to do about it",
		Long: `Have the server look itself over, and say what is wrong with what to do about it:
containers that the engine has and the database does not, or the other way round,
containers, claims and hooks that have been on their way for too long, releases
that fail, pools that cannot be filled, the engine, the database, the disk. It
changes nothing. The exit status is 0 when nothing is wrong, and 1 otherwise.`,
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

func printReport(w io.Writer, r doctor.Report) error {
	marks := map[doctor.Severity]string{doctor.Error: "error:  ", doctor.Warning: "warning:"}
	if hasColours(w) {
		marks = map[doctor.Severity]string{doctor.Error: red + "error:  " + resetColour, doctor.Warning: yellow + "warning:" + resetColour}
	}
	engine := "does not answer"
	if r.Engine.Reachable {
		engine = fmt.Sprintf("answers in %.0f ms, has %d containers", r.Engine.Duration, r.Engine.Containers)
	}
	lines := []string{
		"engine    " + engine,
		fmt.Sprintf("database  %s %s, schema %d, %s", r.Database.Kind, r.Database.Version, r.Database.Schema, formatSize(uint64(max(0, r.Database.Bytes)))),
		fmt.Sprintf("disk      %s: %s of %s free", r.Disk.Path, formatSize(r.Disk.Free), formatSize(r.Disk.Total)),
	}
	for _, f := range r.Findings {
		// A message may hold what a hook has printed, of many lines.
		lines = append(lines, "", marks[f.Severity]+" "+sanitize(strings.Join(strings.Fields(f.Message), " ")), "         "+f.Hint)
	}
	verdict := "nothing is wrong"
	if n := len(r.Findings); n == 1 {
		verdict = "1 thing is wrong"
	} else if n > 1 {
		verdict = fmt.Sprintf("%d things are wrong", n)
	}
	_, err := fmt.Fprintln(w, strings.Join(append(lines, "", verdict), "\n"))
	return err
}

// formatSize is a number of bytes, for people.
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
