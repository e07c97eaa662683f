package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/workload"
)

func newApplyCmd() *cobra.Command {
	var r remote
	var files []string
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Add a workload, or change it",
		Long: `Send workload files to the server. "-" is the standard input. Applying the same
file again changes nothing.`,
		Example: "  hostler apply -f workload.yaml",
		Args:    cobra.NoArgs,
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, _ []string) error {
			if len(files) == 0 {
				return usagef(cmd, "name a file with -f")
			}
			for _, name := range files {
				if err := applyFile(ctx, cmd, c, &r, name); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "workload file, may be repeated")
	must(cmd.MarkFlagFilename("file", "yaml", "yml", "json"))
	r.flags(cmd)
	return cmd
}

func applyFile(ctx context.Context, cmd *cobra.Command, c *client.Client, r *remote, name string) error {
	source, err := readFile(cmd.InOrStdin(), name)
	if err != nil {
		return err
	}
	w, err := workload.Parse(source, name)
	if validationErrors, ok := errors.AsType[workload.ValidationErrors](err); ok {
		if err := printLines(cmd.ErrOrStderr(), lines(validationErrors)); err != nil {
			return err
		}
		return &exitError{code: exitFailure}
	}
	if err != nil {
		return err
	}
	applied, err := c.Apply(ctx, w.ID, w.Source)
	if err != nil {
		return err
	}
	invalid, _ := w.Lint(name)
	var notes []workload.Note
	for _, n := range append(applied.Notes, invalidCommands(invalid)...) {
		n.File = name
		notes = append(notes, workload.Note(n))
	}
	if err := printLines(cmd.ErrOrStderr(), lines(notes)); err != nil {
		return err
	}
	return r.printResult(cmd.OutOrStdout(), applied, func(out io.Writer) error {
		_, err := fmt.Fprintf(out, "workload %s %s (revision %s)\n", applied.ID, applySummary(applied), applied.Revision)
		return err
	})
}

// invalidCommands returns what validate calls errors and the server accepts.
func invalidCommands(all workload.ValidationErrors) []client.ValidationError {
	var notes []client.ValidationError
	for _, e := range all {
		notes = append(notes, client.ValidationError(e))
	}
	return notes
}

// applySummary returns what applying did, in one word.
func applySummary(a client.AppliedWorkload) string {
	if a.Created {
		return "created"
	}
	if a.Changed {
		return "changed"
	}
	return "unchanged"
}

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
				_, err := fmt.Fprintf(out, "container %s %s\n", box.ID, box.State)
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
