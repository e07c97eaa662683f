package api

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/dryrun"
	"github.com/hostler/hostler/workload"
)

// DryRunner shows what hooks would do.
type DryRunner interface {
	Run(ctx context.Context, workload, on string, given map[string]string) (dryrun.Result, error)
}

// DryRunRequest names the hooks of a dry run.
type DryRunRequest struct {
	On        string            `json:"on" minLength:"1" maxLength:"128" doc:"A point, the type of an event, or an alias of one." example:"post_claim"`
	Variables map[string]string `json:"variables,omitempty" doc:"Values of variables by name; secrets cannot be given."`
}

type dryRunIn struct {
	ID   string `path:"id" maxLength:"128" doc:"The workload's id." example:"greeter"`
	Body DryRunRequest
}

func (a *API) dryRun(ctx context.Context, in *dryRunIn) (*struct{ Body dryrun.Result }, error) {
	report, err := a.o.DryRuns.Run(ctx, in.ID, in.Body.On, in.Body.Variables)
	if err != nil {
		return nil, err
	}
	return &struct{ Body dryrun.Result }{report}, nil
}

// LiveTestRequest names the hooks of a test.
type LiveTestRequest struct {
	Point string `json:"point" minLength:"1" maxLength:"64" doc:"A point, or an alias of one." example:"post_claim"`
}

// LiveTest is the result of a test.
type LiveTest struct {
	Claim string      `json:"claim"`
	Point hooks.Point `json:"point"`
	Runs  []hooks.Run `json:"runs" doc:"One for each hook that is enabled, in order; their event is test. and the point."`
}

type liveTestIn struct {
	ID   string `path:"id" maxLength:"128" doc:"The claim's id."`
	Body LiveTestRequest
}

func (a *API) liveTest(ctx context.Context, in *liveTestIn) (*struct{ Body LiveTest }, error) {
	p, ok := workload.PointNamed(in.Body.Point)
	if !ok {
		return nil, invalidf("body.point: %q is not a point", in.Body.Point)
	}
	c, err := a.o.Claims.Claim(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if c.State != claim.Active {
		return nil, fmt.Errorf("claim %s: %w: it is %s", c.ID, claim.ErrNotActive, c.State)
	}
	runs, err := a.o.Deliveries.Test(ctx, p, c.Subject())
	if err != nil {
		return nil, err
	}
	for i, r := range runs {
		runs[i] = viewRun(r)
	}
	return &struct{ Body LiveTest }{LiveTest{Claim: c.ID, Point: p, Runs: runs}}, nil
}
