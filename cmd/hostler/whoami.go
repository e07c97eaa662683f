package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/client"
)

func newWhoAmICmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use: "whoami", Short: "Show who you are to the server, and what you may do", Args: cobra.NoArgs,
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, _ []string) error {
			me, err := c.WhoAmI(ctx)
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), me, func(w io.Writer) error {
				var rows [][]string
				for _, g := range me.Grants {
					cells := append([]string{me.Actor}, grantCells([]client.Grant{g})...)
					rows = append(rows, append(cells, g.Claim, optionalTime(me.ExpiresAt)))
				}
				return writeTable(w, "ACTOR ROLE TENANTS WORKLOADS CLAIM EXPIRES", rows)
			})
		}),
	}
	r.flags(cmd)
	return cmd
}

func newCanICmd() *cobra.Command {
	var r remote
	var q client.Question
	cmd := &cobra.Command{
		Use:   "can-i VERB THING",
		Short: "Show whether you may do something",
		Long: `Ask the server whether your credential permits something. The exit status is 0 if it
does and 1 if not. What is not named may be anything that the credential is for.
VERB and THING are one of these, and THING may be in the plural:

  ` + strings.ReplaceAll(api.Verbs(), ", ", "\n  "),
		Example: `  hostler can-i create claim --tenant alice --workload web
  hostler can-i revoke key`,
		Args: cobra.ExactArgs(2),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			q.Verb, q.Thing = args[0], args[1]
			answer, err := c.CanI(ctx, q)
			if err != nil {
				return err
			}
			word := map[bool]string{true: "yes", false: "no"}[answer.Allowed]
			err = r.printResult(cmd.OutOrStdout(), answer, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s: %s\n", word, sanitize(answer.Reason))
				return err
			})
			if err == nil && !answer.Allowed {
				return &exitError{code: exitFailure}
			}
			return err
		}),
		ValidArgsFunction: completeQuestion,
	}
	f := cmd.Flags()
	f.StringVar(&q.Tenant, "tenant", "", "on something of this tenant")
	f.StringVar(&q.Workload, "workload", "", "on something of this workload")
	f.StringVar(&q.Claim, "claim", "", "on this claim")
	must(cmd.RegisterFlagCompletionFunc("workload", r.complete(workloadIDs)))
	must(cmd.RegisterFlagCompletionFunc("claim", r.complete(claimIDs)))
	r.flags(cmd)
	return cmd
}

// completeQuestion completes the verb and the thing.
func completeQuestion(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var words []string
	for row := range strings.SplitSeq(api.Verbs(), ", ") {
		verb, things, _ := strings.Cut(row, " ")
		switch {
		case len(args) == 0:
			words = append(words, verb)
		case len(args) == 1 && args[0] == verb:
			words = strings.Split(things, "|")
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}
