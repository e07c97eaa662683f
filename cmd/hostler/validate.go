package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/workload"
)

// maxFile is the maximum number of bytes that are read of a workload file. It is
// one more than a valid file can have.
const maxFile = 1<<20 + 1

func newValidateCmd() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check workload files, and report their errors",
		Long: `Report all errors in workload files, one per line, in the format of a compiler:
file:line:column: field: message (hint). "-" is the standard input. No server is
needed. The exit status is 1 when a file has errors.`,
		Example: "  hostler validate workload.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			validationErrors := workload.ValidationErrors{}
			for _, name := range args {
				source, err := readFile(cmd.InOrStdin(), name)
				if err != nil {
					return err
				}
				found, err := validateFile(source, name)
				if err != nil {
					return err
				}
				validationErrors = append(validationErrors, found...)
			}
			err := r.printResult(cmd.OutOrStdout(), validationErrors, func(w io.Writer) error { return printValidationErrors(w, validationErrors) })
			if err == nil && len(validationErrors) > 0 {
				return &exitError{code: exitFailure}
			}
			return err
		},
	}
	r.outputFlag(cmd)
	return cmd
}

// validateFile returns the errors in a file, also those that only its directory
// shows.
func validateFile(source []byte, name string) (workload.ValidationErrors, error) {
	w, err := workload.Parse(source, name)
	if validationErrors, ok := errors.AsType[workload.ValidationErrors](err); ok {
		return validationErrors, nil
	}
	if err != nil {
		return nil, err
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
	return validationErrors, nil
}

func printValidationErrors(w io.Writer, validationErrors workload.ValidationErrors) error {
	for _, f := range validationErrors {
		if _, err := fmt.Fprintln(w, f); err != nil {
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
