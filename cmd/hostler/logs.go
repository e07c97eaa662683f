package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

// Bounds of the part of a container's log that is read.
const (
	defaultLogBytes = 64 << 10
	maxLogBytes     = 10 << 20 // of the server
)

func newLogsCmd() *cobra.Command {
	var r remote
	var container string
	var tail int
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs RUN | --container CONTAINER",
		Short: "Print the output of a hook run or a container",
		Long: `Print the output of each attempt of a hook run: its standard output on the
standard output, its standard error on the standard error. With --container,
print the last output of a container's main process: the whole lines of its last
64 KiB, or the last lines with --tail. Of a container that is gone, that is kept if
it failed, with the output of the health check that failed.

Of an attempt that runs, print the lines that it has printed so far.

With -f, print what a container prints until its main process has ended, or what
the attempts of a run print until none runs. It asks the server every second: of a
container that prints more than 1 MiB in a second, or a hook that prints more than
48 KiB, lines are missing, which is said. The output of a hook with secret
parameters is printed when it has ended, and lines that may be a part of a secret
with several lines come later.

On a terminal, control characters are escaped: a tenant's output must not control
the reader's terminal. Files and pipes get the output unchanged.`,
		Args: cobra.MaximumNArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			if (container != "") == (len(args) == 1) {
				return usagef(cmd, "name either a hook run or a container with --container")
			}
			if tail < 0 {
				return usagef(cmd, "--tail takes a number of lines")
			}
			out, errOut := cmd.OutOrStdout(), cmd.ErrOrStderr()
			switch {
			case container != "" && follow:
				return followContainer(ctx, out, errOut, c, container, tail, logInterval)
			case container != "":
				return containerLogs(ctx, out, c, container, tail)
			case follow:
				return followRun(ctx, out, errOut, c, args[0], tail, logInterval)
			}
			attempts, err := c.Run(ctx, args[0])
			if err != nil {
				return err
			}
			return r.printResult(out, attempts, func(out io.Writer) error { return printAttempts(out, errOut, attempts, tail) })
		}),
		ValidArgsFunction: r.complete(runIDs),
	}
	cmd.Flags().StringVar(&container, "container", "", "print the log of this container instead")
	cmd.Flags().IntVar(&tail, "tail", 0, "only the last lines, this many: of a container's log, or of each stream of an attempt")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print what is added")
	must(cmd.RegisterFlagCompletionFunc("container", func(cmd *cobra.Command, _ []string, text string) ([]completion, cobra.ShellCompDirective) {
		return r.complete(containerIDs)(cmd, nil, text)
	}))
	r.flags(cmd)
	return cmd
}

// containerLogs prints the last lines of a container's log: tail of them, or with 0
// those within defaultLogBytes.
func containerLogs(ctx context.Context, out io.Writer, c *client.Client, id string, tail int) error {
	asked := int64(defaultLogBytes)
	for {
		text, err := readLog(ctx, c, id, asked)
		if err != nil {
			return err
		}
		isCut := int64(len(text)) == asked
		if tail == 0 || !isCut || asked == maxLogBytes || bytes.Count(text, []byte("\n")) > tail {
			return printLog(out, id, []byte(tailLines(string(wholeLines(text, isCut)), tail)))
		}
		asked = min(4*asked, maxLogBytes)
	}
}

// readLog returns the last bytes of a container's log, n at most.
func readLog(ctx context.Context, c *client.Client, id string, n int64) ([]byte, error) {
	logs, err := c.ContainerLogs(ctx, id, n)
	if err != nil {
		return nil, err
	}
	defer logs.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(logs, n))
	if err != nil {
		return nil, fmt.Errorf("read the log of container %s: %w", id, err)
	}
	return text, nil
}

// printLog writes a part of a container's log.
func printLog(out io.Writer, id string, text []byte) error {
	shown := sanitizeFor(out, isTerminal(out))
	_, err := shown.Write(text)
	if err := errors.Join(err, shown.Close()); err != nil {
		return fmt.Errorf("print the log of container %s: %w", id, err)
	}
	return nil
}

// printAttempts prints the output of attempts, of each stream the last lines.
func printAttempts(out, errOut io.Writer, attempts []client.Run, tail int) error {
	return printOutput(sanitizeFor(out, isTerminal(out)), sanitizeFor(errOut, isTerminal(errOut)), attempts, tail)
}

// printOutput prints the output of each attempt on out and errOut, so that a
// hook's standard output can be piped. The header of each attempt goes to
// errOut.
func printOutput(out, errOut io.WriteCloser, attempts []client.Run, tail int) error {
	for _, a := range attempts {
		fmt.Fprintln(errOut, attemptHeader(a))
		if _, err := io.WriteString(out, tailLines(a.Stdout.String(), tail)); err != nil {
			return err
		}
		if _, err := io.WriteString(errOut, tailLines(a.Stderr.String(), tail)); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), errOut.Close())
}

// attemptHeader returns the line that describes an attempt.
func attemptHeader(a client.Run) string {
	how := string(a.State)
	if a.ExitCode != nil {
		how += fmt.Sprintf(", exit code %d", *a.ExitCode)
	}
	if a.Error != "" {
		how += ", " + oneLine(a.Error)
	}
	return fmt.Sprintf("# %s %s, attempt %d: %s", a.Point, sanitize(a.Hook), a.Attempt, how)
}

// writeOutput writes texts of a program to its streams.
func writeOutput(out, errOut io.WriteCloser, stdout, stderr string) error {
	_, err := io.WriteString(out, stdout)
	_, errStderr := io.WriteString(errOut, stderr)
	return errors.Join(err, errStderr, out.Close(), errOut.Close())
}
