package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

func newKillCmd() *cobra.Command {
	var r remote
	var signal string
	cmd := &cobra.Command{
		Use:   "kill CLAIM COMMAND",
		Short: "End a command of a claim, or send it a signal",
		Long: `End a command that was started with "hostler exec": SIGTERM, and SIGKILL after a
grace period, to all of its processes. It returns when none is left. With --signal
only that signal is sent.`,
		Example: "  hostler kill 0199... build --signal SIGINT",
		Args:    cobra.ExactArgs(2),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			if signal != "" {
				return c.SignalCommand(ctx, args[0], args[1], signal)
			}
			got, err := c.EndCommand(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), got, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "command %s %s\n", got.ID, commandState(got))
				return err
			})
		}),
		ValidArgsFunction: r.completeCommand,
	}
	cmd.Flags().StringVar(&signal, "signal", "", "send this signal, such as SIGINT, and do not wait")
	r.flags(cmd)
	return cmd
}

// completeCommand completes a claim, and a command of it.
func (r *remote) completeCommand(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return r.complete(claimIDs)(cmd, args, text)
	}
	return r.complete(func(ctx context.Context, c *client.Client) ([]string, error) {
		items, err := c.Commands(ctx, args[0])
		return idsOf(items, func(s client.CommandStatus) string { return s.ID }), err
	})(cmd, args[1:], text)
}

// newGetCommandsCmd returns the command that lists the commands of a claim.
func newGetCommandsCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use: "commands CLAIM", Aliases: []string{"command"}, Short: "Show the commands of a claim: those that run, and those that ended in the last two minutes",
		Args: cobra.ExactArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			items, err := c.Commands(ctx, args[0])
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), items, func(w io.Writer) error {
				rows := make([][]string, len(items))
				for i, item := range items {
					rows[i] = []string{
						item.ID, commandState(item), strconv.FormatInt(item.Output, 10), strconv.FormatBool(item.Attached),
						timestamp(item.StartedAt), oneLine(strings.Join(item.Command, " ")),
					}
				}
				return writeTable(w, "ID STATE OUTPUT ATTACHED STARTED COMMAND", rows)
			})
		}),
		ValidArgsFunction: r.complete(claimIDs),
	}
	r.flags(cmd)
	return cmd
}

// commandState returns what a command does, in one word.
func commandState(s client.CommandStatus) string {
	switch {
	case s.EndedAt == nil && s.Held:
		return "held"
	case s.EndedAt == nil:
		return "running"
	case s.Result == nil:
		return "lost"
	case s.Result.TimedOut:
		return "timed_out"
	case s.Result.Signal != "":
		return s.Result.Signal
	}
	return "exited:" + strconv.Itoa(s.Result.ExitCode)
}
