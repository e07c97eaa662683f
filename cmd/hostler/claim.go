package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/api/client"
	"github.com/hostler/hostler/claim"
)

func newClaimCmd() *cobra.Command {
	var r remote
	var tenant string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "claim WORKLOAD --tenant TENANT",
		Short: "Claim a container for a tenant",
		Long: `Claim a container of a workload for a tenant, and return when its hooks have
run. Claiming what the tenant holds already shows that claim and runs nothing.`,
		Example: "  hostler claim greeter --tenant alice --wait 10s",
		Args:    cobra.ExactArgs(1),
		RunE: r.ask(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			if tenant == "" {
				return usagef(cmd, "say for whom with --tenant")
			}
			stop := spin(cmd.ErrOrStderr(), "waiting for a container of "+args[0])
			got, created, err := c.Claim(ctx, args[0], tenant, wait)
			stop()
			if err != nil {
				return err
			}
			return r.print(cmd.OutOrStdout(), got, func(w io.Writer) error { return printClaim(w, got, created) })
		}),
		ValidArgsFunction: r.complete(workloadIDs),
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "for whom")
	cmd.Flags().DurationVar(&wait, "wait", 0, "how long to wait when every container is taken, 5m at most")
	r.flags(cmd)
	return cmd
}

func printClaim(w io.Writer, c claim.Claim, created bool) error {
	how := "held already"
	if created {
		how = string(c.Source)
	}
	lines := []string{
		fmt.Sprintf("claim      %s (%s, %s)", c.ID, c.State, how),
		"container  " + c.Container,
	}
	if c.Endpoint.Host != "" {
		for _, port := range c.Endpoint.Ports {
			lines = append(lines, "endpoint   "+net.JoinHostPort(c.Endpoint.Host, strconv.Itoa(port)))
		}
	}
	for _, h := range c.Hooks {
		lines = append(lines, fmt.Sprintf("hook       %s %s: %s in %.1f ms (run %s)", h.Point, h.Hook, h.State, h.Duration, h.Run))
	}
	for _, warning := range c.Warnings {
		lines = append(lines, "warning    "+oneLine(warning))
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

func newReleaseCmd() *cobra.Command {
	var r remote
	var workload, tenant string
	var discard bool
	cmd := &cobra.Command{
		Use:   "release [CLAIM]",
		Short: "Give a container back",
		Long: `Release a claim, named by its id or by --workload and --tenant. Releasing twice
is no error.`,
		Example: "  hostler release --workload greeter --tenant alice",
		Args:    cobra.MaximumNArgs(1),
		RunE: r.ask(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			byName := workload != "" && tenant != ""
			if byName == (len(args) == 1) || !byName && workload+tenant != "" {
				return usagef(cmd, "name either a claim, or --workload and --tenant")
			}
			id, err := claimToRelease(ctx, c, args, workload, tenant)
			if err != nil {
				return err
			}
			stop := spin(cmd.ErrOrStderr(), "releasing "+id)
			got, err := c.Release(ctx, id, discard)
			stop()
			if err != nil {
				return err
			}
			return r.print(cmd.OutOrStdout(), got, func(w io.Writer) error { return printReleased(w, got) })
		}),
		ValidArgsFunction: r.complete(claimIDs),
	}
	cmd.Flags().StringVar(&workload, "workload", "", "the claim's workload")
	cmd.Flags().StringVar(&tenant, "tenant", "", "the claim's tenant")
	cmd.Flags().BoolVar(&discard, "discard", false, "destroy the container with all that the tenant left in it")
	r.flags(cmd)
	return cmd
}

func claimToRelease(ctx context.Context, c *client.Client, args []string, workload, tenant string) (string, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	live, err := c.Claims(ctx, claim.Filter{Workload: workload, Tenant: tenant, Limit: 1})
	if err != nil {
		return "", err
	}
	if len(live) == 0 {
		return "", &exitError{exitNotFound, fmt.Errorf("%s holds no claim on %s; see `hostler get claims`", tenant, workload)}
	}
	return live[0].ID, nil
}

func printReleased(w io.Writer, c claim.Claim) error {
	if _, err := fmt.Fprintf(w, "claim %s %s\n", c.ID, c.State); err != nil {
		return err
	}
	for _, warning := range c.Warnings {
		if _, err := fmt.Fprintln(w, "warning: "+oneLine(warning)); err != nil {
			return err
		}
	}
	return nil
}
