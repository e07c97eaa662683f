package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/quota"
)

func newQuotaCmd() *cobra.Command {
	cmd := newGroupCmd("quota", "Show and change quotas", newQuotaListCmd(), newQuotaGetCmd(), newQuotaSetCmd(), newQuotaDeleteCmd())
	cmd.Long = `Show and change the limits of tenants, keys and workloads. LEVEL is tenant, key or
workload. Limits are written as the flags of "hostler serve" have them:

  claims=10                live claims
  claims-per-minute=60     claims that were added in the last minute
  state=10GiB              bytes that current snapshots occupy
  requests-per-second=50   of one server; twice as many at once

The value none is no limit. What is not named is the server's default.`
	return cmd
}

func newQuotaListCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use: "list", Short: "List the quotas that win over the server's defaults", Args: cobra.NoArgs,
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, _ []string) error {
			all, err := c.Quotas(ctx)
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), all, func(w io.Writer) error {
				rows := [][]string{}
				for _, q := range all {
					rows = append(rows, []string{string(q.Level), q.Name, quota.Limits(q.Limits).String()})
				}
				return writeTable(w, "LEVEL NAME LIMITS", rows)
			})
		}),
	}
	r.flags(cmd)
	return cmd
}

func newQuotaGetCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use: "get LEVEL NAME", Short: "Show a quota and what is used of it", Args: cobra.ExactArgs(2),
		Example: "  hostler quota get tenant alice",
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			q, err := c.Quota(ctx, client.QuotaLevel(args[0]), args[1])
			if err != nil {
				return err
			}
			return r.printQuota(cmd.OutOrStdout(), q)
		}),
	}
	r.flags(cmd)
	return cmd
}

func newQuotaSetCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use: "set LEVEL NAME LIMITS", Short: "Replace the limits of a tenant, a key or a workload", Args: cobra.ExactArgs(3),
		Example: "  hostler quota set tenant alice claims=20,state=10GiB\n  hostler quota set key ci requests-per-second=none",
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			l, err := quota.ParseLimits(args[2])
			if err != nil {
				return usagef(cmd, "%v", err)
			}
			q, err := c.SetQuota(ctx, client.QuotaLevel(args[0]), args[1], client.Limits{
				Claims: l.Claims, ClaimsPerMinute: l.ClaimsPerMinute, State: l.State, RequestsPerSecond: l.RequestsPerSecond,
			})
			if err != nil {
				return err
			}
			return r.printQuota(cmd.OutOrStdout(), q)
		}),
	}
	r.flags(cmd)
	return cmd
}

func newQuotaDeleteCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use: "delete LEVEL NAME", Short: "Remove the limits of a tenant, a key or a workload", Args: cobra.ExactArgs(2),
		Long:    "Remove the limits of a tenant, a key or a workload. The server's defaults apply to it.",
		Example: "  hostler quota delete tenant alice",
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			q, err := c.DeleteQuota(ctx, client.QuotaLevel(args[0]), args[1])
			if err != nil {
				return err
			}
			return r.printQuota(cmd.OutOrStdout(), q)
		}),
	}
	r.flags(cmd)
	return cmd
}

// printQuota prints a quota with a row for each limit.
func (r *remote) printQuota(w io.Writer, q client.Quota) error {
	return r.printResult(w, q, func(w io.Writer) error {
		number := func(n *int64) string {
			if n == nil || *n < 0 {
				return "none"
			}
			return strconv.FormatInt(*n, 10)
		}
		used := func(n int64) string { return strconv.FormatInt(n, 10) }
		if _, err := fmt.Fprintf(w, "quota of %s %s\n", q.Level, sanitize(q.Name)); err != nil {
			return err
		}
		return writeTable(w, "LIMIT VALUE USED", [][]string{
			{"claims", number(q.Limits.Claims), used(q.Usage.Claims)},
			{"claims-per-minute", number(q.Limits.ClaimsPerMinute), used(q.Usage.ClaimsPerMinute)},
			{"state", number(q.Limits.State), used(q.Usage.State)},
			{"requests-per-second", number(q.Limits.RequestsPerSecond), ""},
		})
	})
}
