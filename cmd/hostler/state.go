package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

func newSyncCmd() *cobra.Command {
	var r remote
	var name claimName
	cmd := &cobra.Command{
		Use:   "sync [CLAIM]",
		Short: "Take a snapshot of a tenant's state now",
		Long: `Take a snapshot of the state of an active claim, named by its id or by --workload
and --tenant. The container keeps running. The workload must allow it
(sync.policy.manual).`,
		Example: "  hostler sync --workload greeter --tenant alice",
		Args:    cobra.MaximumNArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			id, err := name.resolve(ctx, cmd, c, args)
			if err != nil {
				return err
			}
			stop := startTransferProgress(ctx, cmd, c, "taking a snapshot of "+id, client.EventFilter{Claim: id})
			got, err := c.Sync(ctx, id)
			stop()
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), got, func(w io.Writer) error {
				t := got.Transfer
				what := fmt.Sprintf("%d of these files (%d bytes) read, %d bytes uploaded in %.0f ms", t.MovedFiles, t.MovedBytes, t.Sent, t.Duration)
				if got.Transfer.Unchanged {
					what = "unchanged"
				}
				_, err := fmt.Fprintf(w, "snapshot %s: %d files, %d bytes, %s\n", got.Transfer.Snapshot, got.Transfer.Files, got.Transfer.Bytes, what)
				return err
			})
		}),
		ValidArgsFunction: r.complete(claimIDs),
	}
	name.flags(cmd)
	r.flags(cmd)
	return cmd
}

// ownerFlags are the flags that name the owner of snapshots.
type ownerFlags struct{ workload, tenant string }

func (o *ownerFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.workload, "workload", "", "the snapshots' workload")
	cmd.Flags().StringVar(&o.tenant, "tenant", "", "the snapshots' tenant")
}

func (o *ownerFlags) check(cmd *cobra.Command) error {
	if o.workload == "" || o.tenant == "" {
		return usagef(cmd, "name the owner with --workload and --tenant")
	}
	return nil
}

func newSnapshotsCmd() *cobra.Command {
	var r remote
	var o ownerFlags
	cmd := &cobra.Command{
		Use:   "snapshots --workload WORKLOAD --tenant TENANT",
		Short: "Show a tenant's snapshots, or restore, verify, export or import one",
		Long: `Show the stored snapshots of a tenant's state, newest first. The tenant's next
claim starts with the current one, which is marked with a star. BYTES is the size
of its files; STORED what it needs in the sink, compressed, with what it shares
with other snapshots; NEW what its upload has stored.`,
		Example: "  hostler snapshots --workload greeter --tenant alice",
		Args:    cobra.NoArgs,
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, _ []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			all, err := c.Snapshots(ctx, o.workload, o.tenant)
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), all, func(w io.Writer) error {
				rows := make([][]string, len(all))
				for i, s := range all {
					rows[i] = snapshotRow(s)
				}
				return writeTable(w, "SNAPSHOT CURRENT TAKEN REASON FILES BYTES STORED NEW RESTORED_FROM", rows)
			})
		}),
	}
	o.flags(cmd)
	r.flags(cmd)
	cmd.AddCommand(newRestoreCmd(), newVerifyCmd(), newExportCmd(), newImportCmd())
	return cmd
}

func snapshotRow(s client.Snapshot) []string {
	return []string{
		s.ID, map[bool]string{true: "*"}[s.Current], timestamp(s.Time), s.Reason, strconv.Itoa(s.Files),
		strconv.FormatInt(s.Bytes, 10), strconv.FormatInt(s.Stored, 10), strconv.FormatInt(s.New, 10), s.RestoredFrom,
	}
}

func newRestoreCmd() *cobra.Command {
	var r remote
	var o ownerFlags
	cmd := &cobra.Command{
		Use:   "restore SNAPSHOT --workload WORKLOAD --tenant TENANT",
		Short: "Make an older snapshot the current one again",
		Long: `Make an older snapshot the current one again, under a new id: the tenant's next
claim starts with it. The previous current one stays in the list, within the
limit of the workload's sync.keep. The tenant must not hold a claim.`,
		Example: "  hostler snapshots restore 0199c2a4-7d1e-7c5e-9f3a-2b1c4d5e6f70 --workload greeter --tenant alice",
		Args:    cobra.ExactArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			back, err := c.Restore(ctx, o.workload, o.tenant, args[0])
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), back, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "snapshot %s is current: %d files, %d bytes, restored from %s\n", back.ID, back.Files, back.Bytes, args[0])
				return err
			})
		}),
	}
	o.flags(cmd)
	r.flags(cmd)
	return cmd
}
