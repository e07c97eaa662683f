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
	look func(*visit, context.Context) error
}

// machinery is looked at first: records are compared with what the engine says,
// and cannot be looked at without the database.
var machinery = []check{
	{"engine", (*visit).engine},
	{"disk", (*visit).disk},
	{"database", (*visit).database},
}

// records are what the database says, and the engine perhaps not.
var records = []check{
	{"unknown_container", (*visit).strangers},
	{"missing_container", (*visit).missing},
	{"container_health", (*visit).ill},
	{"stuck_container", (*visit).stuckContainers},
	{"release_failed", (*visit).releasesFailed},
	{"kept_containers", (*visit).keptContainers},
	{"newer_container", (*visit).newerContainers},
	{"stuck_claim", (*visit).stuckClaims},
	{"failing_pool", (*visit).pools},
	{"stuck_hook", (*visit).runs},
}

// visit is one examination.
type visit struct {
	*Doctor
	check  string // under way
	now    time.Time
	there  []runtime.Status // what the engine has
	blind  bool             // the engine does not answer
	unread bool             // nor does the database
	report *Report
}

// slowest bounds each check: who asks wants to know what does not answer, too.
const slowest = 10 * time.Second

// Examine makes every check.
func (d *Doctor) Examine(ctx context.Context) Report {
	v := &visit{Doctor: d, now: time.Now(), report: &Report{Findings: []Finding{}}}
	v.make(ctx, machinery)
	if !v.unread {
		v.make(ctx, records)
	}
	slices.SortStableFunc(v.report.Findings, func(a, b Finding) int {
		return cmp.Compare(a.Severity, b.Severity) // errors before warnings
	})
	v.report.OK = len(v.report.Findings) == 0
	return *v.report
}

// make makes some of the checks.
func (v *visit) make(ctx context.Context, checks []check) {
	for _, c := range checks {
		v.check = c.name
		within, cancel := context.WithTimeoutCause(ctx, slowest, errSlow)
		if err := c.look(v, within); err != nil {
			v.found(Finding{
				Severity: Error, Message: fmt.Sprintf("it could not be looked at: %v", err),
				Remedy: "see that the engine and the database can be reached, and the server's log",
			})
		}
		cancel()
	}
}

var errSlow = fmt.Errorf("there was no answer within %s", slowest)

func (v *visit) found(f Finding) {
	f.Check = v.check
	v.report.Findings = append(v.report.Findings, f)
}

// age is how long ago something was, for people.
func (v *visit) age(t time.Time) time.Duration { return v.now.Sub(t).Round(time.Second) }
