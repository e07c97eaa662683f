package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

func newScaleCmd() *cobra.Command {
	var r remote
	var minIdle, maxSize int
	cmd := &cobra.Command{
		Use:   "scale WORKLOAD [--min-idle N] [--max-size N]",
		Short: "Change the bounds of a pool",
		Long: `Change the bounds of a pool until a workload file with other bounds is applied.
Idle containers above them are destroyed, claims are not affected, and a drained
pool fills again.`,
		Example: "  hostler scale greeter --min-idle 5",
		Args:    cobra.ExactArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			var s client.Scale
			if cmd.Flags().Changed("min-idle") {
				s.MinIdle = &minIdle
			}
			if cmd.Flags().Changed("max-size") {
				s.MaxSize = &maxSize
			}
			if s.MinIdle == nil && s.MaxSize == nil {
				return usagef(cmd, "name --min-idle, --max-size or both")
			}
			status, err := c.Scale(ctx, args[0], s)
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), status, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "pool %s scaled: min_idle %d, max_size %d\n", status.Workload, status.MinIdle, status.MaxSize)
				return err
			})
		}),
		ValidArgsFunction: r.complete(workloadIDs),
	}
	cmd.Flags().IntVar(&minIdle, "min-idle", 0, "number of idle containers to keep")
	cmd.Flags().IntVar(&maxSize, "max-size", 0, "maximum number of containers")
	r.flags(cmd)
	return cmd
}

func newDrainCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "drain WORKLOAD",
		Short: "Destroy a pool's idle containers and create no more until it is scaled",
		Args:  cobra.ExactArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			status, err := c.Drain(ctx, args[0])
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), status, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "pool %s drained: %d claimed\n", status.Workload, status.Containers[client.ContainerClaimed])
				return err
			})
		}),
		ValidArgsFunction: r.complete(workloadIDs),
	}
	r.flags(cmd)
	return cmd
}
