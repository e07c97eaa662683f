package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

func newClaimCmd() *cobra.Command {
	var r remote
	var tenant string
	var wait time.Duration
	var terms claimFlags
	cmd := &cobra.Command{
		Use:   "claim WORKLOAD [--tenant TENANT]",
		Short: "Claim a container for a tenant",
		Long: `Claim a container of a workload for a tenant, and return when its hooks have
run. If the tenant already holds a claim, show it and run nothing: its labels,
environment and lifetime stay, and a parameter with another value is an error.`,
		Example: "  hostler claim greeter --tenant alice --wait 10s",
		Args:    cobra.ExactArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			if wait < 0 || wait > maxClaimWait {
				return usagef(cmd, "--wait takes 0 to %s", maxClaimWait)
			}
			if wait == 0 && cmd.Flags().Changed("wait") {
				wait = client.NoWait
			}
			o, err := terms.options(cmd, wait)
			if err != nil {
				return err
			}
			stop := startTransferProgress(ctx, cmd, c, "waiting for a container of "+args[0], client.EventFilter{Workload: args[0], Tenant: tenant})
			got, created, err := c.ClaimWith(ctx, args[0], tenant, o)
			stop()
			if tenant == "" && isInvalid(err, "body.tenant") {
				return usagef(cmd, "name the tenant with --tenant: the credential is not for exactly one")
			}
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), got, func(w io.Writer) error { return printClaim(w, got, created) })
		}),
		ValidArgsFunction: r.complete(workloadIDs),
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "the tenant that gets the container (default that of the credential)")
	terms.flags(cmd)
	cmd.Flags().Var(durationFlag{&wait}, "wait", "how long to wait for a container, 5m at most; 0 is not at all (default up to 2m for one that is being created, and not at all while every container is claimed)")
	r.nameFlags(cmd)
	return cmd
}

// maxClaimWait is the longest time that the server waits for a container.
const maxClaimWait = 5 * time.Minute

// isInvalid reports whether an error is about a field of the request.
func isInvalid(err error, field string) bool {
	problem, ok := errors.AsType[*client.Error](err)
	return ok && problem.Code == client.CodeInvalidRequest && strings.Contains(problem.Detail, field+": ")
}

func printClaim(w io.Writer, c client.Claim, created bool) error {
	how := "already held"
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
	if len(c.Labels) > 0 {
		lines = append(lines, "labels     "+oneLine(joinedPairs(c.Labels)))
	}
	if c.ExpiresAt != nil {
		lines = append(lines, "expires    "+timestamp(*c.ExpiresAt))
	}
	for _, h := range c.Hooks {
		lines = append(lines, fmt.Sprintf("hook       %s %s: %s in %.1f ms (run %s)", h.Point, h.Hook, h.State, h.Duration, h.Run))
	}
	for _, warning := range c.Warnings {
		lines = append(lines, "warning    "+oneLine(warning))
	}
	_, err := fmt.Fprintln(w, sanitize(strings.Join(lines, "\n")))
	return err
}

func newReleaseCmd() *cobra.Command {
	var r remote
	name := claimName{ended: true}
	var discard bool
	cmd := &cobra.Command{
		Use:   "release [CLAIM]",
		Short: "Release a claim and its container",
		Long: `Release a claim, named by its id or by --workload and --tenant. Releasing twice
is not an error: the last claim of a tenant that holds none is shown again.

If the workload keeps its tenants' state, a snapshot is taken first. When that
fails the exit status is 7 and the claim is release_failed: it keeps its
container, which holds the last copy of the state, and the server retries with
backoff. Releasing it again retries at once; --discard ends it and loses what has
changed since the last snapshot. List such claims with
"hostler get claims --failed".`,
		Example: "  hostler release --workload greeter --tenant alice",
		Args:    cobra.MaximumNArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			id, err := name.resolve(ctx, cmd, c, args)
			if err != nil {
				return err
			}
			stop := startTransferProgress(ctx, cmd, c, "releasing "+id, client.EventFilter{Claim: id})
			got, err := c.Release(ctx, id, discard)
			stop()
			if err != nil {
				return retainedError(err, id)
			}
			return r.printResult(cmd.OutOrStdout(), got, func(w io.Writer) error { return printReleased(w, got) })
		}),
		ValidArgsFunction: r.complete(claimIDs),
	}
	name.flags(cmd)
	cmd.Flags().BoolVar(&discard, "discard", false, "destroy the container with all of the tenant's files, and take no snapshot")
	r.flags(cmd)
	return cmd
}

// retainedError returns the error of a failed release. If the upload of the
// tenant's state failed, the error describes what happens next.
func retainedError(err error, id string) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Code != client.CodeSyncFailed {
		return err
	}
	loss := "nothing is lost"
	if e.Reason == "terminating" {
		loss = "the state is lost unless an upload succeeds before the container is gone"
	}
	return &exitError{exitState, fmt.Errorf("%s; %s: the server retries in %s, `hostler release %s` retries now, "+
		"and --discard gives up the state", strings.TrimSpace(e.Detail), loss, e.RetryAfter, id)}
}

// claimName names a claim by its workload and tenant.
type claimName struct {
	workload, tenant string
	ended            bool // the last one that has ended is meant if there is no live one
}

func (n *claimName) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&n.workload, "workload", "", "the claim's workload")
	cmd.Flags().StringVar(&n.tenant, "tenant", "", "the claim's tenant")
}

// resolve returns the id of the claim that the arguments or the flags name.
func (n *claimName) resolve(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) (string, error) {
	byName := n.workload != "" && n.tenant != ""
	if byName == (len(args) == 1) || !byName && n.workload+n.tenant != "" {
		return "", usagef(cmd, "name either a claim or --workload and --tenant")
	}
	if len(args) == 1 {
		return args[0], nil
	}
	live, err := c.Claims(ctx, client.ClaimFilter{Workload: n.workload, Tenant: n.tenant, Limit: 1})
	if err != nil {
		return "", err
	}
	if len(live) == 0 && n.ended {
		if live, err = c.Claims(ctx, client.ClaimFilter{
			Workload: n.workload, Tenant: n.tenant, States: []client.ClaimState{client.ClaimReleased, client.ClaimFailed}, Newest: true, Limit: 1,
		}); err != nil {
			return "", err
		}
	}
	if len(live) == 0 {
		return "", &exitError{exitNotFound, fmt.Errorf("%s holds no claim on %s; see `hostler get claims`", n.tenant, n.workload)}
	}
	return live[0].ID, nil
}

func printReleased(w io.Writer, c client.Claim) error {
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
