// Package doctor diagnoses an installation: differences between the engine and
// the database, operations that take too long or fail repeatedly, and resources
// that are about to run out.
//
// It promises to change nothing, to continue with the other checks when one of
// them fails, and to give a hint with each finding. A problem that resolves
// itself within moments is not a finding. Repairs are up to the operator.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/wait"
	"github.com/hostler/hostler/workload"
)

// Doctor has the sources that the checks read.
type Doctor struct {
	Engine  Engine
	Records Records
	Pools   Pools
	Catalog Catalog
	// Database and Disk describe where the records are stored.
	Database func(ctx context.Context) (Database, error)
	Disk     func() (Disk, error)
	// Listeners returns what is wrong with the files of TLS, and Credentials what was
	// not accepted lately. Nil: there is nothing to examine.
	Listeners   func() []string
	Credentials func() CredentialFailures
	// CredentialProblems returns what is wrong with the sources of keys and bindings.
	CredentialProblems func() []string
	// WorkloadFiles returns what the leader has found in the directory of workload
	// files. Nil: there is nothing to examine.
	WorkloadFiles func(ctx context.Context) (pool.FollowedFiles, error)
}

// Engine is what runs the containers.
type Engine interface {
	List(ctx context.Context) ([]runtime.Status, error)
	Status(ctx context.Context, id string) (runtime.Status, error)
}

// Records reads the records of the database.
type Records interface {
	Container(ctx context.Context, id string) (pool.Container, error)
	Containers(ctx context.Context, f pool.ContainerFilter) ([]pool.Container, error)
	Claims(ctx context.Context, f claim.Filter) ([]claim.Claim, error)
	Runs(ctx context.Context, f hooks.RunFilter) ([]hooks.Run, error)
	Events(ctx context.Context, f activity.Filter, after int64, limit int) (activity.Page, error)
	Waits(ctx context.Context, f wait.Filter) ([]wait.Wait, error)
	Cursors(ctx context.Context) ([]activity.Cursor, error)
}

// Pools returns the status of the fill loops.
type Pools interface {
	Statuses(ctx context.Context) ([]pool.Status, error)
}

// Catalog finds the workload revisions of containers.
type Catalog interface {
	Revision(ctx context.Context, workload, revision string) (*workload.Workload, pool.Record, error)
}

// check is one check. It returns an error when the check could not be made.
type check struct {
	name string
	run  func(*examination, context.Context) error
}

// componentChecks run first: records are compared with the engine's containers,
// and cannot be read without the database.
var componentChecks = []check{
	{"engine", (*examination).engine},
	{"disk", (*examination).disk},
	{"database", (*examination).database},
	{"tls_files", (*examination).listeners},
	{"failed_credentials", (*examination).credentials},
	{"credential_sources", (*examination).credentialSources},
}

// recordChecks compare the records with the engine and with time limits.
var recordChecks = []check{
	{"workload_files", (*examination).workloadFiles},
	{"unknown_container", (*examination).unknownContainers},
	{"missing_container", (*examination).missingContainers},
	{"container_health", (*examination).unhealthyContainers},
	{"stuck_container", (*examination).stuckContainers},
	{"release_failed", (*examination).failedReleases},
	{"kept_containers", (*examination).retainedContainers},
	{"unreadable_state", (*examination).unreadableState},
	{"newer_container", (*examination).newerContainers},
	{"stuck_claim", (*examination).stuckClaims},
	{"failing_pool", (*examination).failingPools},
	{"stuck_hook", (*examination).stuckRuns},
	{"stuck_cursor", (*examination).stuckCursors},
	{"stuck_wait", (*examination).stuckWaits},
}

// examination is one run of all checks.
type examination struct {
	*Doctor
	current            string // the check in progress
	now                time.Time
	engineContainers   []runtime.Status // the engine's containers
	engineUnavailable  bool             // the engine does not answer
	recordsUnavailable bool             // the database does not answer
	report             *Report
}

// checkTimeout bounds each check, so that the report also has the components
// that do not answer.
const checkTimeout = 10 * time.Second

// Examine runs every check.
func (d *Doctor) Examine(ctx context.Context) Report {
	v := &examination{Doctor: d, now: time.Now(), report: &Report{Findings: []Finding{}}}
	v.runChecks(ctx, componentChecks)
	if !v.recordsUnavailable {
		v.runChecks(ctx, recordChecks)
	}
	slices.SortStableFunc(v.report.Findings, func(a, b Finding) int {
		return cmp.Compare(a.Severity, b.Severity) // errors before warnings
	})
	v.report.OK = len(v.report.Findings) == 0
	return *v.report
}

// runChecks runs the given checks.
func (v *examination) runChecks(ctx context.Context, checks []check) {
	for _, c := range checks {
		v.current = c.name
		checkCtx, cancel := context.WithTimeoutCause(ctx, checkTimeout, errCheckTimeout)
		if err := c.run(v, checkCtx); err != nil {
			v.addFinding(Finding{
				Severity: Error, Message: fmt.Sprintf("check failed: %v", err),
				Hint: "check that the engine and the database are reachable, and the server's log",
			})
		}
		cancel()
	}
}

var errCheckTimeout = fmt.Errorf("no answer within %s", checkTimeout)

func (v *examination) addFinding(f Finding) {
	f.Check = v.current
	v.report.Findings = append(v.report.Findings, f)
}

// counted returns a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// age returns how long ago t was, for display.
func (v *examination) age(t time.Time) time.Duration { return v.now.Sub(t).Round(time.Second) }
