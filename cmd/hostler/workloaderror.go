package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

// workloadError is an error of the server about a workload, which its hint names.
type workloadError struct {
	error
	workload string
}

func (e *workloadError) Unwrap() error { return e.error }

// aboutWorkload adds to an error of the server the workload that the arguments or
// the flags of the command name, if they name one.
func aboutWorkload(cmd *cobra.Command, args []string, err error) error {
	if _, ok := errors.AsType[*client.Error](err); !ok {
		return err
	}
	name, _ := cmd.Flags().GetString("workload") // empty if there is no such flag
	for i, a := range argumentsOf(cmd) {
		if a.name == "WORKLOAD" && i < len(args) {
			name = args[i]
		}
	}
	if name == "" {
		return err
	}
	return &workloadError{err, name}
}
