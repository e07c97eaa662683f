package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

// bootstrapName is the name of a first key for which none is given.
const bootstrapName = "operator"

func newKeyBootstrapCmd() *cobra.Command {
	var r remote
	var offline offlineStore
	cmd := &cobra.Command{
		Use:   "bootstrap [NAME]",
		Short: "Make the first key, an operator's, and print it",
		Long: `Make the first key of a server, an operator's, and print it. Without --data it is
made through a running server, which must accept this client without a key: one
that has no credential and listens on a loopback address, or one whose Unix socket
--server names. With --data it is made in the data directory of a stopped server,
or of one that has not run: a server that listens on other addresses than loopback
does not start without a credential.`,
		Example: `  hostler key bootstrap > operator.key
  hostler key bootstrap --server unix:/run/hostler/hostler.sock > operator.key
  hostler key bootstrap --data /var/lib/hostler > operator.key`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := firstOf(append(args, bootstrapName)...)
			made := func(ctx context.Context) (client.CreatedKey, error) { return offline.bootstrap(ctx, name) }
			if !offline.isGiven(cmd) {
				c, err := r.client(cmd)
				if err != nil {
					return err
				}
				made = func(ctx context.Context) (client.CreatedKey, error) {
					return c.CreateKey(ctx, client.KeyRequest{Name: name, Role: client.RoleOperator})
				}
			} else if err := offline.check(cmd); err != nil {
				return err
			}
			k, err := made(cmd.Context())
			if err != nil {
				return err
			}
			return r.printCreatedKey(cmd, k)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	offline.flags(cmd)
	r.flags(cmd)
	return cmd
}
