package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

func newVerifyCmd() *cobra.Command {
	var r remote
	var o ownerFlags
	cmd := &cobra.Command{
		Use:   "verify [SNAPSHOT] --workload WORKLOAD --tenant TENANT",
		Short: "Read and check a tenant's snapshots",
		Long: `Read all of a snapshot, or all that are kept, and compare each object in the sink
with its checksum. It lists every damaged object with the snapshot and the files
that it belongs to, and exits with status 11 then. The tenant may hold a claim.`,
		Example: "  hostler snapshots verify --workload greeter --tenant alice",
		Args:    cobra.MaximumNArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			id := strings.Join(args, "")
			var checked, total atomic.Int64
			stop := startProgress(cmd.ErrOrStderr(), func() string {
				return fmt.Sprintf("verifying: %s of %s", binarySize(checked.Load()), binarySize(total.Load()))
			})
			v, err := c.VerifySnapshots(ctx, o.workload, o.tenant, id, func(p client.VerifyProgress) {
				checked.Store(p.Bytes)
				total.Store(p.Of)
			})
			stop()
			if err != nil {
				return err
			}
			if err := r.printResult(cmd.OutOrStdout(), v, func(w io.Writer) error { return printVerification(w, v) }); err != nil {
				return err
			}
			if !v.OK {
				return &exitError{exitDamaged, fmt.Errorf("the number of damages is %d", v.Damaged)}
			}
			return nil
		}),
	}
	o.flags(cmd)
	r.flags(cmd)
	return cmd
}

// printVerification writes the result of a verification for people.
func printVerification(w io.Writer, v client.Verification) error {
	if len(v.Damages) > 0 {
		rows := make([][]string, len(v.Damages))
		for i, d := range v.Damages {
			rows[i] = []string{d.Object, d.Snapshot, strconv.Itoa(d.Files), d.Problem}
		}
		if err := writeTable(w, "OBJECT SNAPSHOT FILES PROBLEM", rows); err != nil {
			return err
		}
	}
	for _, d := range v.Damages {
		for _, p := range d.Paths {
			if _, err := fmt.Fprintf(w, "damaged: %s in %s\n", sanitize(p), sanitize(d.Snapshot)); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(w, "checked %d snapshots: %d files, %d bytes; read %d bytes of %d objects in %d requests\n",
		v.Snapshots, v.Files, v.Bytes, v.Read, v.Objects, v.Requests)
	return err
}

// exported is the result of an export.
type exported struct {
	Snapshot string `json:"snapshot"`
	File     string `json:"file"`
	Bytes    int64  `json:"bytes"` // of the tar
}

// abortReason returns why an export may have been aborted.
func abortReason(ctx context.Context, c *client.Client, o ownerFlags, id string) string {
	kept, err := c.Snapshots(ctx, o.workload, o.tenant)
	if err == nil && !slices.ContainsFunc(kept, func(s client.Snapshot) bool { return s.ID == id }) {
		return "newer snapshots have replaced " + id + " in the meantime, and the workload does not `keep` it"
	}
	return "see `hostler snapshots verify`"
}

func newExportCmd() *cobra.Command {
	var r remote
	var o ownerFlags
	var file string
	cmd := &cobra.Command{
		Use:   "export [SNAPSHOT] --workload WORKLOAD --tenant TENANT",
		Short: "Write a snapshot as a tar",
		Long: `Write a snapshot, or the current one, as a tar that any program can unpack. Names
are those in the container without the first slash. The tar is written to the
standard output, if that is no terminal, or to a file: FILE.part, which becomes
FILE when it is complete. The tenant may hold a claim.`,
		Example: "  hostler snapshots export --workload greeter --tenant alice -f alice.tar",
		Args:    cobra.MaximumNArgs(1),
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if file == "-" && isTerminal(out) {
				return usagef(cmd, "a tar is not printed on a terminal: redirect the output, or name a file with -f")
			}
			var n atomic.Int64
			stop := startProgress(cmd.ErrOrStderr(), func() string { return "exporting: " + binarySize(n.Load()) })
			tar, id, err := c.ExportSnapshot(ctx, o.workload, o.tenant, strings.Join(args, ""))
			if err == nil {
				err = saveTar(file, out, counted{tar, &n})
				_ = tar.Close() // it was only read
			}
			stop()
			if errors.Is(err, io.ErrUnexpectedEOF) {
				err = fmt.Errorf("the export was aborted after %d bytes: %w; %s", n.Load(), err, abortReason(ctx, c, o, id))
			}
			if err != nil {
				return err
			}
			done := exported{id, file, n.Load()}
			if file == "-" {
				out = cmd.ErrOrStderr()
			}
			return r.printResult(out, done, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "snapshot %s: %d bytes of tar\n", done.Snapshot, done.Bytes)
				return err
			})
		}),
	}
	cmd.Flags().StringVarP(&file, "file", "f", "-", "the file to write, - for the standard output")
	o.flags(cmd)
	r.flags(cmd)
	return cmd
}

// saveTar writes a tar to a file, which has its name only when it is complete, or to
// out for "-".
func saveTar(file string, out io.Writer, tar io.Reader) error {
	if file == "-" {
		_, err := io.Copy(out, tar)
		return err
	}
	part := file + ".part"
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, tar)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, file)
	}
	if err != nil {
		_ = os.Remove(part) // the first error counts
	}
	return err
}

func newImportCmd() *cobra.Command {
	var r remote
	var o ownerFlags
	var file string
	cmd := &cobra.Command{
		Use:   "import --workload WORKLOAD --tenant TENANT",
		Short: "Make a tar a tenant's current snapshot",
		Long: `Make a tar the current snapshot of a tenant: the tenant's next claim starts with
it. The names in the tar are below the paths that the workload keeps, such as
data/notes.txt; . and / at the beginning are ignored. What the tar does not have
is not in the snapshot. The previous current one stays in the list, within the
limit of the workload's sync.keep. The tenant must not hold a claim.`,
		Example: "  hostler snapshots import --workload greeter --tenant alice -f alice.tar",
		Args:    cobra.NoArgs,
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, _ []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			in := cmd.InOrStdin()
			if f, ok := in.(*os.File); file == "-" && ok && isTerminal(f) {
				return usagef(cmd, "a tar is not read from a terminal: redirect the input, or name a file with -f")
			}
			if file != "-" {
				f, err := os.Open(file)
				if err != nil {
					return err
				}
				defer f.Close() //nolint:errcheck // it was only read
				in = f
			}
			var n atomic.Int64
			stop := startProgress(cmd.ErrOrStderr(), func() string { return "importing: " + binarySize(n.Load()) })
			s, err := c.ImportSnapshot(ctx, o.workload, o.tenant, counted{in, &n})
			stop()
			if err != nil {
				return err
			}
			return r.printResult(cmd.OutOrStdout(), s, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "snapshot %s is current: %d files, %d bytes\n", s.ID, s.Files, s.Bytes)
				return err
			})
		}),
	}
	cmd.Flags().StringVarP(&file, "file", "f", "-", "the tar, - for the standard input")
	o.flags(cmd)
	r.flags(cmd)
	return cmd
}
