package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

func newPublishCmd() *cobra.Command {
	var r remote
	var claim, data string
	var priority int
	cmd := &cobra.Command{
		Use:   "publish TYPE --claim CLAIM [--data JSON] [--priority N]",
		Short: "Publish an event of a claim's program",
		Long: `Publish an event of a claim's program. The type is lower-case words with dots
between them; what begins with neither "agent." nor "custom." is recorded as
custom.TYPE. The event is marked as untrusted.`,
		Example: `  hostler event publish agent.task_completed --claim CLAIM --data '{"task_summary": "done"}'`,
		Args:    cobra.ExactArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			p := client.Publication{Type: args[0], Priority: &priority}
			if data != "" {
				p.Data = json.RawMessage(data)
			}
			switch {
			case claim == "":
				return usagef(cmd, "name the claim with --claim")
			case data != "" && !json.Valid(p.Data):
				return usagef(cmd, "--data is not JSON")
			}
			got, err := c.Publish(ctx, claim, p)
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), got, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "event %s published\n", got.Type)
				return err
			})
		}),
	}
	cmd.Flags().StringVar(&claim, "claim", "", "the claim whose program publishes it")
	cmd.Flags().StringVar(&data, "data", "", "the event's data, JSON of at most 32 KiB")
	cmd.Flags().IntVar(&priority, "priority", 7, "0 to 9: 9 is critical, 8 about the lifecycle, 7 about the state, 6 and lower are measurements")
	r.flags(cmd)
	return cmd
}

func newActivityCmd() *cobra.Command {
	var r remote
	var report client.ActivityReport
	cmd := &cobra.Command{
		Use:   "activity CLAIM ACTIVITY",
		Short: "Record what a claim's program does",
		Long: `Record what a claim's program does: idle, thinking, executing, waiting_for_input,
blocked, completed, limits_exceeded, stalled or offline. If that has changed, an
event agent.activity_changed is recorded.`,
		Example: "  hostler activity CLAIM executing --tool grep",
		Args:    cobra.ExactArgs(2),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			report.Activity = args[1]
			got, err := c.SetActivity(ctx, args[0], report)
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), got, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "claim %s: %s since %s\n", args[0], activityOf(got.Activity, got.Tool), timestamp(got.Since))
				return err
			})
		}),
		ValidArgsFunction: r.complete(claimIDs),
	}
	cmd.Flags().StringVar(&report.Tool, "tool", "", "the tool that it uses")
	cmd.Flags().StringVar(&report.Task, "task", "", "what it works on")
	r.flags(cmd)
	return cmd
}

// activityOf describes an activity and its tool.
func activityOf(activity, tool string) string {
	if tool != "" {
		activity += " (" + tool + ")"
	}
	return oneLine(activity)
}
