package api

import (
	"context"
	"slices"

	"github.com/hostler/hostler/pool"
)

// Pools has the methods on pools that the API needs.
type Pools interface {
	Status(ctx context.Context, workload string) (pool.Status, error)
	Statuses(ctx context.Context) ([]pool.Status, error)
	Scale(ctx context.Context, workload string, s pool.Scale) (pool.Status, error)
	Drain(ctx context.Context, workload string) (pool.Status, error)
}

type poolPath struct {
	Workload string `path:"workload" maxLength:"128" doc:"The workload's id." example:"greeter"`
}

type poolOut struct{ Body pool.Status }

// viewPool returns a status that has a count for every state.
func viewPool(s pool.Status) pool.Status {
	counts := map[pool.State]int{}
	for _, state := range pool.States() {
		if state != pool.Destroyed {
			counts[state] = s.Containers[state]
		}
	}
	s.Containers = counts
	return s
}

func (a *API) listPools(ctx context.Context, in *struct{ Paging }) (*struct{ Body *Page[pool.Status] }, error) {
	all, err := a.o.Pools.Statuses(ctx)
	if err != nil {
		return nil, err
	}
	scope := scopeOf(ctx)
	all = slices.DeleteFunc(all, func(s pool.Status) bool { return !isOwnWorkload(scope, s.Workload) })
	page := pageOfAll(all, in.Paging, func(s pool.Status) string { return s.Workload })
	for i, s := range page.Items {
		page.Items[i] = viewPool(s)
	}
	return &struct{ Body *Page[pool.Status] }{page}, nil
}

func (a *API) getPool(ctx context.Context, in *poolPath) (*poolOut, error) {
	s, err := a.o.Pools.Status(ctx, in.Workload)
	return answerPool(s, err)
}

func answerPool(s pool.Status, err error) (*poolOut, error) {
	if err != nil {
		return nil, err
	}
	return &poolOut{viewPool(s)}, nil
}

// ScaleRequest changes the bounds that are set.
type ScaleRequest struct {
	MinIdle *int `json:"min_idle,omitempty" minimum:"0" maximum:"100000" doc:"The number of idle containers."`
	MaxSize *int `json:"max_size,omitempty" minimum:"1" maximum:"100000" doc:"The maximum number of containers."`
}

type scaleIn struct {
	Workload string `path:"workload" maxLength:"128" doc:"The workload's id." example:"greeter"`
	Body     ScaleRequest
}

func (a *API) scalePool(ctx context.Context, in *scaleIn) (*poolOut, error) {
	if in.Body.MinIdle == nil && in.Body.MaxSize == nil {
		return nil, invalidf("body: set min_idle, max_size or both")
	}
	s, err := a.o.Pools.Scale(ctx, in.Workload, pool.Scale{MinIdle: in.Body.MinIdle, MaxSize: in.Body.MaxSize})
	return answerPool(s, err)
}

func (a *API) drainPool(ctx context.Context, in *poolPath) (*poolOut, error) {
	s, err := a.o.Pools.Drain(ctx, in.Workload)
	return answerPool(s, err)
}
