package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/workload"
)

// maxFile is the maximum number of bytes that are read of a workload file. It is
// one more than a valid file can have.
const maxFile = 1<<20 + 1

func newValidateCmd() *cobra.Command {
	var r remote
	var v validation
	var ci bool
	cmd := &cobra.Command{
		Use:   "validate FILE|DIR...",
		Short: "Check workload files, and report their errors",
		Long: `Report all errors in workload files, one per line, in the format of a compiler:
file:line:column: field: message (hint). "-" is the standard input, and a
directory stands for its files *.yaml and *.yml. With --all it also stands for
those of the directories below it, and for Markdown files with a front matter;
without a FILE or DIR, --all checks the current directory. It skips files that
have none of the fields id, image and pool, such as compose files, and prints
their names. No server is needed.

The exit status is 1 when a file has errors or cannot be read, or when a
directory has no files.

A workload that copies hooks (hooks_from) is checked with them if the other
workload is in one of the files.

Commands and scripts of hooks are read as sh, bash or mksh reads them: a script
that its shell does not accept is an error, and so is a forbidden command in a
script that is the value of a point. Elsewhere that is a note.

Notes about a valid file begin with "note:" after the position: what another
format means differently, durations without a unit, an image without a fixed tag,
a workload without a health check, hooks at post_create of a pool that keeps no
container idle. With --strict they are errors too. Workloads with the same id are
errors. --verbose
adds the result of each file, and how long the hooks of each point can take at
most. The last line counts the files if there are several.`,
		Example: "  hostler validate workload.yaml\n  hostler validate --all --ci",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && !v.all {
				return usagef(cmd, "name a file or a directory, or give --all")
			}
			v.in, v.strict = cmd.InOrStdin(), v.strict || ci
			v.check(args)
			err := r.printResult(cmd.OutOrStdout(), v.findings(), func(w io.Writer) error {
				return printLines(w, v.lines())
			})
			if err == nil && v.unread == nil && v.failed() {
				return &exitError{code: exitFailure}
			}
			return errors.Join(err, v.unread)
		},
	}
	cmd.Flags().BoolVar(&v.all, "all", false, "check the directories below a directory too; without FILE or DIR, the current one")
	cmd.Flags().BoolVar(&v.verbose, "verbose", false, "show the result of each file, and how long the hooks of each point can take at most")
	cmd.Flags().BoolVar(&v.strict, "strict", false, "exit with 1 also when there are notes")
	cmd.Flags().BoolVar(&ci, "ci", false, "another name of --strict")
	r.outputFlag(cmd)
	return cmd
}

// lines returns what is to be printed of each.
func lines[T fmt.Stringer](all []T) []string {
	list := make([]string, len(all))
	for i, v := range all {
		list[i] = v.String()
	}
	return list
}

// printLines prints lines in which files and tenants may have written.
func printLines(w io.Writer, list []string) error {
	for _, line := range list {
		if _, err := fmt.Fprintln(w, sanitize(line)); err != nil {
			return err
		}
	}
	return nil
}

// readFile reads a file, or the standard input for "-".
func readFile(in io.Reader, name string) ([]byte, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read the workload file: %w", err)
		}
		defer f.Close() //nolint:errcheck // it was only read
		in = f
	}
	source, err := io.ReadAll(io.LimitReader(in, maxFile))
	if err != nil {
		return nil, fmt.Errorf("read the workload file %s: %w", name, err)
	}
	return source, nil
}

func newSchemaCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of workload files, for editors",
		Example: "  hostler schema > hostler.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			schema, err := workload.Schema()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", schema)
			return err
		},
	}
}
