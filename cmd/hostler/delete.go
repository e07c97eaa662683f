package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

func newDeleteCmd() *cobra.Command {
	return newGroupCmd("delete", "Delete a workload or a container", newDeleteWorkloadCmd(), newDeleteContainerCmd())
}

func newDeleteWorkloadCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "workload WORKLOAD",
		Short: "Delete a workload: its pool is drained, and it is deleted with its last claim",
		Args:  cobra.ExactArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			gone, err := c.DeleteWorkload(ctx, args[0])
			if err != nil {
				return err
			}
			state := map[bool]string{true: "deleted", false: "deleting"}[gone]
			return r.printResult(cmd.OutOrStdout(), map[string]string{"id": args[0], "state": state}, func(out io.Writer) error {
				_, err := fmt.Fprintf(out, "workload %s %s\n", args[0], state)
				return err
			})
		}),
		ValidArgsFunction: r.complete(workloadIDs),
	}
	r.flags(cmd)
	return cmd
}

func newDeleteContainerCmd() *cobra.Command {
	var r remote
	var force, now bool
	cmd := &cobra.Command{
		Use:   "container CONTAINER",
		Short: "Destroy a container, after its pre_destroy hooks",
		Args:  cobra.ExactArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			destroy := c.DestroyContainer
			if now {
				destroy = c.DestroyContainerNow
			}
			box, err := destroy(ctx, args[0], force)
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), box, func(out io.Writer) error {
				_, err := fmt.Fprintln(out, destroyed(box))
				return err
			})
		}),
		ValidArgsFunction: r.complete(containerIDs),
	}
	cmd.Flags().BoolVar(&force, "force", false, "also when a claim holds it; a hook that runs in it is ended")
	cmd.Flags().BoolVar(&now, "now", false, "without its pre_destroy hooks; those that run are ended")
	r.flags(cmd)
	return cmd
}
