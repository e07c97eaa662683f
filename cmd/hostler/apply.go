package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/workload"
)

func newApplyCmd() *cobra.Command {
	var r remote
	var files []string
	var isDryRun bool
	cmd := &cobra.Command{
		Use:   "apply [FILE|DIR...] [-f FILE|DIR]",
		Short: "Add a workload, or change it",
		Long: `Send workload files to the server. "-" is the standard input, and a directory
stands for its files *.yaml and *.yml. Applying the same file again changes
nothing.

Every file is checked before the first is sent: if one has errors, or if two
describe workloads with the same id, nothing is applied. A workload is applied
after the one that it copies hooks from (hooks_from).

With --dry-run the server does all but change something, and the answer is what
would change: the values of the file, and the containers that would be replaced.
"hostler diff" shows the same, and has an exit status for it with --exit-code.

With -o json the result is an object for one FILE, and a list otherwise.`,
		Example: "  hostler apply -f workload.yaml\n  hostler apply --dry-run -f workloads/",
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			files := append(args, files...)
			if len(files) == 0 {
				return usagef(cmd, "name a FILE or a directory, or \"-\"")
			}
			apply := c.Apply
			if isDryRun {
				apply = c.PlanApply
			}
			_, err := applyFiles(ctx, cmd, &r, files, apply)
			return err
		}),
	}
	applyFlags(cmd, &r, &files)
	cmd.Flags().BoolVar(&isDryRun, "dry-run", false, "show what would change, and change nothing")
	return cmd
}

func applyFlags(cmd *cobra.Command, r *remote, files *[]string) {
	cmd.Flags().StringArrayVarP(files, "file", "f", nil, "workload file, or directory of such files; may be repeated")
	must(cmd.MarkFlagFilename("file", "yaml", "yml", "json"))
	r.flags(cmd)
}

func newDiffCmd() *cobra.Command {
	var r remote
	var files []string
	var code bool
	cmd := &cobra.Command{
		Use:   "diff [FILE|DIR...] [-f FILE|DIR]",
		Short: "Show what applying workload files would change",
		Long: `Show what "hostler apply" would change, and change nothing: the values of the
file that differ from the applied ones, and how many containers would be
replaced, when and why. The server decides that as it does when a file is
applied, and rejects what it would reject then.

Comments and notation are no differences, although applying them changes the
file on record. A workload that copies hooks (hooks_from) is compared with the
hooks of the other one as it is applied now.`,
		Example: "  hostler diff -f workload.yaml\n  hostler diff --exit-code -f workloads/",
		RunE: r.wrapErrors(func(ctx context.Context, cmd *cobra.Command, c *client.Client, args []string) error {
			files := append(args, files...)
			if len(files) == 0 {
				return usagef(cmd, "name a FILE or a directory, or \"-\"")
			}
			changed, err := applyFiles(ctx, cmd, &r, files, c.PlanApply)
			if err == nil && code && changed {
				return &exitError{code: exitFailure}
			}
			return err
		}),
	}
	applyFlags(cmd, &r, &files)
	cmd.Flags().BoolVar(&code, "exit-code", false, "exit with 1 when something would change")
	return cmd
}

// applyCall applies a file, or plans to.
type applyCall func(ctx context.Context, id string, source []byte) (client.AppliedWorkload, error)

// applyFiles applies what the arguments stand for, and reports whether something
// changed.
func applyFiles(ctx context.Context, cmd *cobra.Command, r *remote, args []string, apply applyCall) (changed bool, err error) {
	set := validation{in: cmd.InOrStdin()}
	files, err := set.parse(args)
	if err != nil {
		return false, r.printFaults(cmd.ErrOrStderr(), err)
	}
	var all []client.AppliedWorkload
	var failed error
	for _, f := range files {
		applied, err := apply(ctx, f.workload.ID, f.workload.Source)
		if err != nil {
			failed = r.printFaults(cmd.ErrOrStderr(), f.rejection(err))
			break
		}
		all, changed = append(all, applied), changed || applied.Changed
		if err := f.printNotes(cmd.ErrOrStderr(), applied); err != nil {
			return changed, err
		}
	}
	if len(all) == 0 {
		return false, failed
	}
	var result any = all
	if len(args) == 1 && len(files) == 1 && files[0].name == args[0] {
		result = all[0]
	}
	return changed, errors.Join(r.printResult(cmd.OutOrStdout(), result, func(out io.Writer) error {
		for _, a := range all {
			if err := printLines(out, appliedLines(a)); err != nil {
				return err
			}
		}
		return nil
	}), failed)
}

// printNotes prints what the server and this program note about an applied file.
func (f *checkedFile) printNotes(w io.Writer, applied client.AppliedWorkload) error {
	invalid, _ := f.workload.Lint(f.name)
	var notes []workload.Note
	for _, n := range append(applied.Notes, invalidCommands(invalid)...) {
		n.File = f.name
		notes = append(notes, workload.Note(n))
	}
	return printLines(w, lines(notes))
}

// rejection returns an error of the server with the name that was given for the
// file: the server knows none.
func (f *checkedFile) rejection(err error) error {
	if rejected, ok := errors.AsType[*client.Error](err); ok && rejected.Code == client.CodeInvalidWorkload {
		for i := range rejected.ValidationErrors {
			rejected.ValidationErrors[i].File = f.name
		}
	}
	return err
}

// printFaults prints the faults of files, each in a line. Other errors, and those of a
// command whose output is not a table, are returned as they are.
func (r *remote) printFaults(w io.Writer, err error) error {
	invalid, ok := errors.AsType[*client.Error](err)
	if !ok || len(invalid.ValidationErrors) == 0 || r.output != "table" {
		return err
	}
	var all workload.ValidationErrors
	for _, e := range invalid.ValidationErrors {
		all = append(all, workload.ValidationError(e))
	}
	return errors.Join(printLines(w, lines(all)), &exitError{code: exitFailure})
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
