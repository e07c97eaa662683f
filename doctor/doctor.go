// Package doctor looks an installation over and says what is wrong with it:
// where the engine and the database disagree, what has been on its way for too
// long, what fails again and again, and what is about to run out.
//
// It promises to change nothing, to go on with the other checks when one of
// them cannot be made, and to name with each finding what to do about it. What
// mends itself within moments is no finding. To mend anything is left to who
// reads the report.
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
	"github.com/hostler/hostler/workload"
)

// Doctor knows where to look.
type Doctor struct {
	Engine  Engine
	Records Records
	Pools   Pools
	Catalog Catalog
	// Database and Disk tell of where the records are.
	Database func(ctx context.Context) (Database, error)
	Disk     func() (Disk, error)
}

// Engine is what runs the containers.
type Engine interface {
	List(ctx context.Context) ([]runtime.Status, error)
	Status(ctx context.Context, id string) (runtime.Status, error)
}

// Records are what the database says.
type Records interface {
	Container(ctx context.Context, id string) (pool.Container, error)
	Containers(ctx context.Context, f pool.ContainerFilter) ([]pool.Container, error)
	Claims(ctx context.Context, f claim.Filter) ([]claim.Claim, error)
	Runs(ctx context.Context, f hooks.RunFilter) ([]hooks.Run, error)
	Events(ctx context.Context, f activity.Filter, after int64, limit int) (activity.Page, error)
}

// Pools tells what the fill loops do.
type Pools interface {
	Statuses(ctx context.Context) ([]pool.Status, error)
}

// Catalog finds what containers were made of.
type Catalog interface {
	Revision(ctx context.Context, workload, revision string) (*workload.Workload, pool.Record, error)
}

// check is one thing to look at. Its error says that it could not be looked at.
type check struct {
	name string
	run  func(*examination, context.Context) error
}

// componentChecks is looked at first: records are compared with what the engine says,
// and cannot be looked at without the database.
var componentChecks = []check{
	{"engine", (*examination).engine},
	{"disk", (*examination).disk},
	{"database", (*examination).database},
}

// recordChecks are what the database says, and the engine perhaps not.
var recordChecks = []check{
	{"unknown_container", (*examination).unknownContainers},
	{"missing_container", (*examination).missingContainers},
	{"container_health", (*examination).unhealthyContainers},
	{"stuck_container", (*examination).stuckContainers},
	{"release_failed", (*examination).failedReleases},
	{"kept_containers", (*examination).retainedContainers},
	{"newer_container", (*examination).newerContainers},
	{"stuck_claim", (*examination).stuckClaims},
	{"failing_pool", (*examination).failingPools},
	{"stuck_hook", (*examination).stuckRuns},
}

// examination is one examination.
type examination struct {
	*Doctor
	current            string // under way
	now                time.Time
	engineContainers   []runtime.Status // what the engine has
	engineUnavailable  bool             // the engine does not answer
	recordsUnavailable bool             // nor does the database
	report             *Report
}

// checkTimeout bounds each check: who asks wants to know what does not answer, too.
const checkTimeout = 10 * time.Second

// Examine makes every check.
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

// runChecks makes some of the checks.
func (v *examination) runChecks(ctx context.Context, checks []check) {
	for _, c := range checks {
		v.current = c.name
		checkCtx, cancel := context.WithTimeoutCause(ctx, checkTimeout, errCheckTimeout)
		if err := c.run(v, checkCtx); err != nil {
			v.addFinding(Finding{
				Severity: Error, Message: fmt.Sprintf("it could not be looked at: %v", err),
				Hint: "see that the engine and the database can be reached, and the server's log",
			})
		}
		cancel()
	}
}

var errCheckTimeout = fmt.Errorf("there was no answer within %s", checkTimeout)

func (v *examination) addFinding(f Finding) {
	f.Check = v.current
	v.report.Findings = append(v.report.Findings, f)
}

// age is how long ago something was, for people.
func (v *examination) age(t time.Time) time.Duration { return v.now.Sub(t).Round(time.Second) }
