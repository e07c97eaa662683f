package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

func newLogsCmd() *cobra.Command {
	var r remote
	var container string
	var tail int64
	cmd := &cobra.Command{
		Use:   "logs RUN | --container CONTAINER",
		Short: "Print the output of a hook run or a container",
		Long: `Print the output of each attempt of a hook run: its standard output on the
standard output, its standard error on the standard error. With --container,
print the last output of a container's main process.

On a terminal, control characters are escaped: a tenant's output must not control
the reader's terminal. Files and pipes get the output unchanged.`,
		Args: cobra.MaximumNArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			if (container != "") == (len(args) == 1) {
				return usagef(cmd, "name either a hook run or a container with --container")
			}
			if container != "" {
				return containerLogs(ctx, cmd.OutOrStdout(), c, container, tail)
			}
			attempts, err := c.Run(ctx, args[0])
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), attempts, func(out io.Writer) error {
				errOut := cmd.ErrOrStderr()
				return printOutput(sanitizeFor(out, isTerminal(out)), sanitizeFor(errOut, isTerminal(errOut)), attempts)
			})
		}),
		ValidArgsFunction: r.complete(runIDs),
	}
	cmd.Flags().StringVar(&container, "container", "", "print the log of this container instead")
	cmd.Flags().Int64Var(&tail, "tail", 64<<10, "maximum number of bytes of a container's log")
	must(cmd.RegisterFlagCompletionFunc("container", r.complete(containerIDs)))
	r.flags(cmd)
	return cmd
}

func containerLogs(ctx context.Context, out io.Writer, c *client.Client, id string, tail int64) error {
	logs, err := c.ContainerLogs(ctx, id, tail)
	if err != nil {
		return err
	}
	defer logs.Close() //nolint:errcheck // it was only read
	shown := sanitizeFor(out, isTerminal(out))
	_, err = io.Copy(shown, logs)
	if err := errors.Join(err, shown.Close()); err != nil {
		return fmt.Errorf("print the log of container %s: %w", id, err)
	}
	return nil
}

// printOutput prints the output of each attempt on out and errOut, so that a
// hook's standard output can be piped. The header of each attempt goes to
// errOut.
func printOutput(out, errOut io.WriteCloser, attempts []client.Run) error {
	for _, a := range attempts {
		how := string(a.State)
		if a.ExitCode != nil {
			how += fmt.Sprintf(", exit code %d", *a.ExitCode)
		}
		if a.Error != "" {
			how += ", " + oneLine(a.Error)
		}
		fmt.Fprintf(errOut, "# %s %s, attempt %d: %s\n", a.Point, sanitize(a.Hook), a.Attempt, how)
		if _, err := io.WriteString(out, a.Stdout.String()); err != nil {
			return err
		}
		if _, err := io.WriteString(errOut, a.Stderr.String()); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), errOut.Close())
}
