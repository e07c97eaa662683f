package api

import (
	"context"
	"slices"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// RunReader reads the records of hook runs, in order of id and attempt.
type RunReader interface {
	Runs(ctx context.Context, f hooks.RunFilter) ([]hooks.Run, error)
	// Run returns all attempts of one run, in order; none when there is no such
	// run.
	Run(ctx context.Context, id string) ([]hooks.Run, error)
}

type listRunsIn struct {
	Paging
	Selection
	Workload  string   `query:"workload" maxLength:"128"`
	Container string   `query:"container" maxLength:"128"`
	Claim     string   `query:"claim" maxLength:"128"`
	Tenant    string   `query:"tenant" maxLength:"200"`
	Point     string   `query:"point" maxLength:"64" doc:"pre_start, post_start, post_create, post_claim, pre_release or pre_destroy."`
	Since     string   `query:"since" maxLength:"64" doc:"Attempts that have started since then: a time (RFC 3339) or an age such as 10m." example:"10m"`
	Output    bool     `query:"output" doc:"Include the output of the attempts, at most 20 runs per page."`
	State     []string `query:"state,explode" doc:"running, succeeded, failed, timed_out and so on; several as a list with commas or repeated."`
}

func (a *API) listRuns(ctx context.Context, in *listRunsIn) (*struct{ Body *Page[hooks.Run] }, error) {
	wanted, err := states(in.State, hooks.RunStates())
	if err != nil {
		return nil, err
	}
	if err := isKnownPoint(in.Point); err != nil {
		return nil, err
	}
	since, err := startOf(in.Since)
	if err != nil {
		return nil, err
	}
	// The output of a thousand attempts may exceed the memory.
	if in.Output {
		in.Limit = min(in.Limit, maxOutputs)
	}
	// One run's maximum number of attempts is added, so that the last run on
	// the page is complete.
	items, err := a.o.Runs.Runs(ctx, hooks.RunFilter{
		Workload: in.Workload, Container: in.Container, Claim: in.Claim, Tenant: in.Tenant,
		Point: hooks.Point(in.Point), States: wanted, After: in.After, IDPart: in.IDPart, Since: since, Newest: in.isNewest(), Limit: in.Limit + hooks.MaxEventRetries + 1,
		NoOutput: !in.Output, Scope: scopeOf(ctx),
	})
	if err != nil {
		return nil, err
	}
	page := pageOf(items, runBoundary(items, in.Limit), func(r hooks.Run) string { return r.ID })
	reader := viewOf(ctx)
	for i, r := range page.Items {
		if !in.Output {
			r.Stdout, r.Stderr = runtime.Output{}, runtime.Output{}
		}
		page.Items[i] = reader.run(r)
	}
	return &struct{ Body *Page[hooks.Run] }{page}, nil
}

// maxOutputs is the maximum number of runs on a page with output.
const maxOutputs = 20

// runBoundary returns the first index at or after limit where a run ends.
func runBoundary(items []hooks.Run, limit int) int {
	for limit < len(items) && items[limit].ID == items[limit-1].ID {
		limit++
	}
	return limit
}

func isKnownPoint(p string) error {
	if p != "" && !hooks.Point(p).IsValid() && hooks.Gate(p).Rule().Gate == "" {
		return invalidf("query.point: %q is not a hook point", p)
	}
	return nil
}

func viewRun(r hooks.Run) hooks.Run {
	if r.Command == nil {
		r.Command = []string{}
	}
	return r
}

// Attempts are all attempts of one run.
type Attempts struct {
	ID    string      `json:"id"`
	Items []hooks.Run `json:"items" doc:"In order."`
}

type runPath struct {
	ID string `path:"id" maxLength:"128" doc:"The run's id."`
}

func (a *API) getRun(ctx context.Context, in *runPath) (*struct{ Body Attempts }, error) {
	items, err := a.o.Runs.Run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, errRunNotFound
	}
	items, reader := slices.Clone(items), viewOf(ctx)
	for i, r := range items {
		if r.State == hooks.Running && a.o.LiveOutput != nil && reader.seesOutput(r) {
			r = a.o.LiveOutput(ctx, r)
		}
		items[i] = reader.run(r)
	}
	return &struct{ Body Attempts }{Attempts{ID: in.ID, Items: items}}, nil
}
