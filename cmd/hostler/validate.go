package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/workload"
)

// maxFile is the maximum number of bytes that are read of a workload file. It is
// one more than a valid file can have.
const maxFile = 1<<20 + 1

// finding is an error of a file, or a note about it.
type finding struct {
	workload.ValidationError
	Severity string `json:"severity"` // error or note
}

func (f finding) String() string {
	if f.Severity == "note" {
		return workload.Note(f.ValidationError).String()
	}
	return f.ValidationError.String()
}

func newValidateCmd() *cobra.Command {
	var r remote
	var verbose, strict, ci bool
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check workload files, and report their errors",
		Long: `Report all errors in workload files, one per line, in the format of a compiler:
file:line:column: field: message (hint). "-" is the standard input. No server is
needed. The exit status is 1 when a file has errors.

Notes about a valid file, such as what another format means differently, begin
with "note:" after the position. With --strict they are errors too. --verbose
adds how long the hooks of each point can take at most.`,
		Example: "  hostler validate workload.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			findings, failed := []finding{}, false
			var durations []string
			for _, name := range args {
				source, err := readFile(cmd.InOrStdin(), name)
				if err != nil {
					return err
				}
				found, w, err := validateFile(source, name)
				if err != nil {
					return err
				}
				failed = failed || len(found) > 0
				for _, e := range found {
					findings = append(findings, finding{e, "error"})
				}
				if w == nil {
					continue
				}
				failed = failed || (strict || ci) && len(w.Notes) > 0
				for _, n := range w.Notes {
					findings = append(findings, finding{workload.ValidationError(n), "note"})
				}
				if verbose {
					durations = append(durations, worstCases(w, name)...)
				}
			}
			err := r.printResult(cmd.OutOrStdout(), findings, func(w io.Writer) error {
				return printLines(w, append(lines(findings), durations...))
			})
			if err == nil && failed {
				return &exitError{code: exitFailure}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&verbose, "verbose", false, "show how long the hooks of each point can take at most")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with 1 also when there are notes")
	cmd.Flags().BoolVar(&ci, "ci", false, "another name of --strict")
	r.outputFlag(cmd)
	return cmd
}

// worstCases describes how long the hooks of each point of a file can take.
func worstCases(w *workload.Workload, name string) []string {
	var all []string
	for _, p := range hooks.Points() {
		if d := w.WorstCase(p.Point); d > 0 {
			all = append(all, fmt.Sprintf("%s: the hooks of %s take at most %s", name, p.Point, d.Round(time.Millisecond)))
		}
	}
	return all
}

// validateFile returns the errors in a file, also those that only its directory
// shows, and its workload if Parse accepts it.
func validateFile(source []byte, name string) (workload.ValidationErrors, *workload.Workload, error) {
	w, err := workload.Parse(source, name)
	if validationErrors, ok := errors.AsType[workload.ValidationErrors](err); ok {
		return validationErrors, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	var validationErrors workload.ValidationErrors
	for _, v := range w.Volumes {
		if v.Seed == "" || name == "-" {
			continue
		}
		seed := filepath.Join(filepath.Dir(name), v.Seed)
		if _, err := os.Stat(seed); err != nil {
			validationErrors = append(validationErrors, workload.ValidationError{
				File: name, Field: "volumes", Message: fmt.Sprintf("the seed %s of volume %s does not exist", seed, v.Name),
				Hint: "create the directory, or remove the seed",
			})
		}
	}
	return validationErrors, w, nil
}

// lines returns what is to be printed of each.
func lines[T fmt.Stringer](all []T) []string {
	list := make([]string, len(all))
	for i, v := range all {
		list[i] = v.String()
	}
	return list
}

func printLines(w io.Writer, list []string) error {
	for _, line := range list {
		if _, err := fmt.Fprintln(w, line); err != nil {
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
