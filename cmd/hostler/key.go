package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/client"
)

func newKeyCmd() *cobra.Command {
	cmd := newGroupCmd("key", "Create, show and revoke API keys",
		newKeyCreateCmd(), newKeyListCmd(), newKeyGetCmd(), newKeyRevokeCmd(), newKeyBootstrapCmd())
	cmd.Long = `Create, show and revoke API keys. A key has a role:

  tenant    uses its own claims, and reads their hook runs, events and state
  author    applies workloads, and reads their hook runs and events
  viewer    reads everything but secrets, output and what tenants keep
  operator  may do everything
  metrics   reads the metrics`
	return cmd
}

// grantFlags are the flags of what a credential permits.
type grantFlags struct {
	role               string
	tenants, workloads []string
}

func (g *grantFlags) flags(cmd *cobra.Command) {
	var roles []string
	for _, r := range auth.Roles() {
		roles = append(roles, string(r))
	}
	cmd.Flags().StringVar(&g.role, "role", "", strings.Join(roles[:len(roles)-1], ", ")+" or "+roles[len(roles)-1])
	cmd.Flags().StringSliceVar(&g.tenants, "tenant", nil, "a tenant, or a prefix and a *; may be repeated")
	cmd.Flags().StringSliceVar(&g.workloads, "workload", nil, "a workload's id, or a prefix and a *; may be repeated")
	must(cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(roles, cobra.ShellCompDirectiveNoFileComp)))
}

func newKeyCreateCmd() *cobra.Command {
	var r remote
	var g grantFlags
	var expires time.Duration
	cmd := &cobra.Command{
		Use:   "create NAME --role ROLE",
		Short: "Create a key, and print it",
		Long: `Create a key and print it. The server keeps only a hash of it: it is not shown
again. With -o json it is in the field "key". The first key of a server must be an
operator's; a server that accepted every client of its machine requires a key from
then on.`,
		Example: `  hostler key create ops --role operator > /etc/hostler/ops.key
  hostler key create app --role tenant --tenant alice --expires 720h
  hostler key create ci --role author --workload 'web-*' -o json`,
		Args: cobra.ExactArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			if g.role == "" {
				return usagef(cmd, "name the role with --role")
			}
			if expires < 0 {
				return usagef(cmd, "--expires %s: it takes more than 0", expires)
			}
			k, err := c.CreateKey(ctx, client.KeyRequest{
				Name: args[0], Role: client.Role(g.role), Tenants: g.tenants, Workloads: g.workloads, ExpiresIn: expires,
			})
			if err != nil {
				return err
			}
			return r.printCreatedKey(cmd, k)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	g.flags(cmd)
	cmd.Flags().DurationVar(&expires, "expires", 0, "how long the key is accepted, such as 24h (default until it is revoked)")
	must(cmd.RegisterFlagCompletionFunc("workload", r.complete(workloadIDs)))
	r.flags(cmd)
	return cmd
}

// printCreatedKey prints a key: what is about it goes to the other output, so that the
// key can be written into a file.
func (r *remote) printCreatedKey(cmd *cobra.Command, k client.CreatedKey) error {
	note := fmt.Sprintf("key %s created; it is not shown again", k.Name)
	if k.Closed {
		note += "\nit is the first one: the server refuses requests without a key from here on"
	}
	note += readableNote(cmd.OutOrStdout())
	if _, err := fmt.Fprintln(cmd.ErrOrStderr(), note); err != nil {
		return err
	}
	return r.printResult(cmd.OutOrStdout(), k, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, k.Secret)
		return err
	})
}

// readableNote returns a line about a file that a secret is written into and that other
// users can read: shells create files so.
func readableNote(out io.Writer) string {
	f, ok := out.(*os.File)
	if !ok {
		return ""
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 == 0 {
		return ""
	}
	return "\nother users can read the file that it is written into: use chmod 600, and umask 077 the next time"
}

const keyHeader = "NAME ROLE TENANTS WORKLOADS STATE EXPIRES LAST_USED SOURCE"

func keyRow(k client.Key) []string {
	return append(append([]string{k.Name}, grantCells(k.Grants)...), keyState(k, time.Now()), optionalTime(k.ExpiresAt), optionalTime(k.LastUsedAt), k.Source)
}

// grantCells returns the roles, tenants and workloads of grants.
func grantCells(grants []client.Grant) []string {
	var roles, tenants, workloads []string
	for _, g := range grants {
		if !slices.Contains(roles, string(g.Role)) {
			roles = append(roles, string(g.Role))
		}
		tenants, workloads = append(tenants, g.Tenants...), append(workloads, g.Workloads...)
	}
	return []string{strings.Join(roles, ","), oneLine(strings.Join(tenants, ",")), oneLine(strings.Join(workloads, ","))}
}

// keyState returns whether a key is accepted.
func keyState(k client.Key, now time.Time) string {
	switch {
	case k.RevokedAt != nil:
		return "revoked"
	case k.ExpiresAt != nil && !now.Before(*k.ExpiresAt):
		return "expired"
	}
	return "active"
}

func optionalTime(at *time.Time) string {
	if at == nil {
		return ""
	}
	return timestamp(*at)
}

func keyNames(ctx context.Context, c *client.Client) ([]string, error) {
	items, err := c.Keys(ctx)
	return idsOf(items[:min(len(items), maxCompletions)], func(k client.Key) string { return k.Name }), err
}

func newKeyListCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use: "list", Short: "Show the keys, also those of the key file", Args: cobra.NoArgs,
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, _ []string) error {
			all, err := c.Keys(ctx)
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), all, func(w io.Writer) error {
				var rows [][]string
				for _, k := range all {
					rows = append(rows, keyRow(k))
				}
				return writeTable(w, keyHeader, rows)
			})
		}),
	}
	r.flags(cmd)
	return cmd
}

func newKeyGetCmd() *cobra.Command {
	return newOneKeyCmd("get NAME", "Show a key", "Show what a key permits, and when it was used. The key itself is not kept.", (*client.Client).Key,
		func(w io.Writer, k client.Key) error { return writeTable(w, keyHeader, [][]string{keyRow(k)}) })
}

func newKeyRevokeCmd() *cobra.Command {
	return newOneKeyCmd("revoke NAME", "Revoke a key", `Have a key refused from here on, and end the streams of its holders. Other servers
on the database refuse it within 2 s. A key of the key file is removed there.`, (*client.Client).RevokeKey,
		func(w io.Writer, k client.Key) error {
			_, err := fmt.Fprintf(w, "key %s revoked\n", sanitize(k.Name))
			return err
		})
}

// newOneKeyCmd returns a command that shows a key, or changes it.
func newOneKeyCmd(use, short, long string, do func(*client.Client, context.Context, string) (client.Key, error), show func(io.Writer, client.Key) error) *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.ExactArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			k, err := do(c, ctx, args[0])
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), k, func(w io.Writer) error { return show(w, k) })
		}),
		ValidArgsFunction: r.complete(keyNames),
	}
	r.flags(cmd)
	return cmd
}

func newTokenCmd() *cobra.Command {
	return newGroupCmd("token", "Make short-lived tokens for tenants", newTokenCreateCmd())
}

func newTokenCreateCmd() *cobra.Command {
	var r remote
	var t client.TokenRequest
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a token, and print it",
		Long: `Make a token for a program or a browser of a tenant and print it. It is accepted
until it expires, or until the key that made it is not. With -o json it is in the
field "token".`,
		Example: `  hostler token create --tenant alice --ttl 5m
  hostler token create --claim 0199c2a4-7d1e-7c5e-9f3a-2b1c4d5e6f70`,
		Args: cobra.NoArgs,
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, _ []string) error {
			if t.ExpiresIn < 0 {
				return usagef(cmd, "--ttl %s: it takes more than 0", t.ExpiresIn)
			}
			token, err := c.CreateToken(ctx, t)
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), token, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, token.Token)
				return err
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&t.Tenant, "tenant", "", "the tenant (default that of the credential, if it is for exactly one)")
	f.StringVar(&t.Claim, "claim", "", "limits the token to this claim of the tenant")
	f.StringSliceVar(&t.Workloads, "workload", nil, "limits the token to these workloads: ids, or a prefix and a *; may be repeated")
	f.DurationVar(&t.ExpiresIn, "ttl", 0, "how long the token is accepted, at most 1h (default 15m)")
	must(cmd.RegisterFlagCompletionFunc("claim", r.complete(claimIDs)))
	must(cmd.RegisterFlagCompletionFunc("workload", r.complete(workloadIDs)))
	r.flags(cmd)
	return cmd
}
