package api

import (
	"context"

	"github.com/hostler/hostler/hooks/dryrun"
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
