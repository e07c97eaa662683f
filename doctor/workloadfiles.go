package doctor

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/workload"
)

// workloadFiles reports the files of the followed directory that are not applied.
func (v *examination) workloadFiles(ctx context.Context) error {
	if v.WorkloadFiles == nil {
		return nil
	}
	found, err := v.WorkloadFiles(ctx)
	if err != nil {
		return err
	}
	if found.Warning != "" {
		v.addFinding(Finding{
			Severity: Warning, Message: "the directory of workload files " + found.Dir + ": " + found.Warning,
			Hint: "put files *.yaml or *.yml directly into it, or name another directory with --workloads",
		})
	}
	if found.Omitted > 0 {
		v.addFinding(Finding{
			Severity: Warning, Message: fmt.Sprintf("the directory of workload files %s has more than %d of them: %d are not followed", found.Dir, workload.MaxFollowedFiles, found.Omitted),
			Hint: "remove files that are not needed, or apply some with `hostler apply -f FILE` and remove them from the directory; it is read again when it changes",
		})
	}
	for _, f := range found.Invalid {
		v.addFinding(Finding{
			Severity: Warning, Workload: f.Workload, Message: "a workload file is not applied: " + f.String(),
			Hint: "correct the file: it is read when it changes, and what was applied before stays in use; `hostler validate` reports all its faults",
		})
	}
	if more := found.Count - len(found.Invalid); more > 0 {
		v.addFinding(Finding{
			Severity: Warning, Message: fmt.Sprintf("%d more workload files are not applied", more),
			Hint: "run `hostler validate` on " + found.Dir,
		})
	}
	return nil
}
