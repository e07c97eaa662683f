package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/workload"
)

// The states of lists, as --state takes them.
var (
	containerStates = []string{"creating", "idle", "claimed", "destroying", "destroyed"}
	claimStates     = []string{"pending", "active", "releasing", "release_failed", "released", "failed"}
	runStates       = []string{"running", "succeeded", "failed", "timed_out", "start_failed", "lost", "cancelled", "unknown", "skipped"}
	deliveryStates  = []string{"queued", "scheduled", "running", "succeeded", "failed", "discarded"}
	waitStates      = []string{"starting", "waiting", "signalling", "timing_out", "signalled", "timed_out", "aborted", "cancelled"}
)

// checkStates returns a usage error for a state that there is not.
func checkStates(cmd *cobra.Command, given, known []string) error {
	for _, s := range given {
		if slices.Contains(known, s) {
			continue
		}
		if near := workload.Suggest(s, known); near != "" {
			return usagef(cmd, "--state %q is unknown: did you mean %s?", s, near)
		}
		return usagef(cmd, "--state %q is not one of %s", s, strings.Join(known, ", "))
	}
	return nil
}
