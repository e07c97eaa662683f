package api

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

// Workloads has the methods on workloads that the API needs.
type Workloads interface {
	Apply(ctx context.Context, source []byte, file, dir string) (pool.Applied, error)
	// Plan returns what Apply would do and return.
	Plan(ctx context.Context, source []byte, file, dir string) (pool.Applied, pool.Plan, error)
	Delete(ctx context.Context, id string) error
	Workload(ctx context.Context, id string) (pool.Record, error)
	Workloads(ctx context.Context) ([]pool.Record, error)
}

// workloadTypes are the content types of a workload file. A body without one is
// parsed as YAML, which includes JSON.
var workloadTypes = []string{"application/yaml", "application/x-yaml", "text/yaml", "application/json"}

const exampleWorkload = `id: greeter
image: nginx:alpine
pool: { min_idle: 2, max_size: 10 }
hooks:
  post_claim: [{ command: ["echo", "hello"] }]
`

// Workload is an applied workload as clients see it.
type Workload struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Image     string    `json:"image"`
	Revision  string    `json:"revision" doc:"A hash of everything that determines its containers."`
	Pool      Bounds    `json:"pool"`
	Draining  bool      `json:"draining,omitempty" doc:"No container is created and none may be claimed."`
	Deleting  bool      `json:"deleting,omitempty" doc:"It is deleted with its last container."`
	Source    string    `json:"source" doc:"The file as it was applied."`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Bounds are the bounds of a pool, from the file or as scaled since.
type Bounds struct {
	MinIdle int `json:"min_idle"`
	MaxSize int `json:"max_size"`
}

// AppliedWorkload is the result of applying a file.
type AppliedWorkload struct {
	Workload
	Created bool `json:"created" doc:"There was no such workload."`
	Changed bool `json:"changed" doc:"Its revision or its pool changed."`
	// Notes are remarks about the file.
	Notes []workload.Note `json:"notes,omitempty" doc:"Remarks about the file, such as what another format means differently."`
	// Plan is what applying would do.
	Plan *pool.Plan `json:"plan,omitempty" doc:"With dry_run: what applying would do. The other values are those that it would have; nothing was changed."`
}

// viewWorkload returns a record for clients. If this version can no longer
// parse the source, the fields from the source are empty.
func viewWorkload(r pool.Record) Workload {
	v := Workload{
		ID: r.ID, Name: r.ID, Revision: r.Revision, Pool: Bounds{r.MinIdle, r.MaxSize},
		Draining: r.Draining, Deleting: r.Deleting, Source: string(r.Source),
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
	if w, err := workload.Parse(r.Source, r.ID); err == nil {
		v.Name, v.Image = w.Name, w.Image
	}
	return v
}

type workloadPath struct {
	ID string `path:"id" maxLength:"128" doc:"The workload's id." example:"greeter"`
}

func (a *API) listWorkloads(ctx context.Context, in *struct{ Paging }) (*struct{ Body *Page[Workload] }, error) {
	records, err := a.o.Workloads.Workloads(ctx)
	if err != nil {
		return nil, err
	}
	scope := scopeOf(ctx)
	records = slices.DeleteFunc(records, func(r pool.Record) bool { return !isOwnWorkload(scope, r.ID) })
	page := pageOfAll(records, in.Paging, func(r pool.Record) string { return r.ID })
	out := &Page[Workload]{Items: []Workload{}, Next: page.Next}
	for _, r := range page.Items {
		out.Items = append(out.Items, viewWorkload(r))
	}
	return &struct{ Body *Page[Workload] }{out}, nil
}

func (a *API) getWorkload(ctx context.Context, in *workloadPath) (*struct{ Body Workload }, error) {
	r, err := a.o.Workloads.Workload(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &struct{ Body Workload }{viewWorkload(r)}, nil
}

type applyIn struct {
	ID          string `path:"id" maxLength:"128" doc:"The workload's id, as in the file." example:"greeter"`
	DryRun      bool   `query:"dry_run" doc:"Do everything but change something: the answer is what applying would do."`
	ContentType string `header:"Content-Type" hidden:"true"`
	RawBody     []byte
}

type applyOut struct {
	Status int
	Body   AppliedWorkload
}

func (a *API) applyWorkload(ctx context.Context, in *applyIn) (*applyOut, error) {
	if err := workloadType(ctx, in.ContentType); err != nil {
		return nil, err
	}
	file := in.ID + ".yaml"
	// The server reuses the bytes once this handler returns.
	source := slices.Clone(in.RawBody)
	parsed, err := workload.Parse(source, file)
	if err != nil {
		return nil, err
	}
	if parsed.ID != in.ID {
		return nil, workload.ValidationErrors{{
			File: file, Field: "id",
			Message: "the file's id is " + parsed.ID + ", the path's is " + in.ID,
			Hint:    "use the same id in both",
		}}
	}
	if parsed.HooksFrom != "" {
		// The answer has the hooks that are copied. It is the same if there are none.
		if err := permit(ctx, "", parsed.HooksFrom, ""); err != nil {
			return nil, err
		}
	}
	var plan *pool.Plan
	apply := a.o.Workloads.Apply
	if in.DryRun {
		plan = new(pool.Plan)
		apply = func(ctx context.Context, source []byte, file, dir string) (applied pool.Applied, err error) {
			applied, *plan, err = a.o.Workloads.Plan(ctx, source, file, dir)
			return applied, err
		}
	}
	applied, err := apply(ctx, source, file, "")
	if err != nil {
		return nil, err
	}
	out := &applyOut{Status: http.StatusOK, Body: AppliedWorkload{
		Workload: viewWorkload(applied.Record), Created: applied.Created, Changed: applied.Changed, Notes: parsed.Notes, Plan: plan,
	}}
	if applied.Created && !in.DryRun {
		out.Status = http.StatusCreated
	}
	return out, nil
}

// workloadType refuses bodies of another content type.
func workloadType(ctx context.Context, contentType string) error {
	if contentType == "" {
		return nil
	}
	t, _, err := mime.ParseMediaType(contentType)
	if err != nil || !slices.Contains(workloadTypes, t) {
		return newProblem(ctx, UnsupportedMediaType, "a workload file's content type is one of "+strings.Join(workloadTypes, ", "))
	}
	return nil
}

type deleteWorkloadOut struct {
	Status int
	Body   *Workload
}

func (a *API) deleteWorkload(ctx context.Context, in *workloadPath) (*deleteWorkloadOut, error) {
	if err := a.o.Workloads.Delete(ctx, in.ID); err != nil {
		return nil, err
	}
	r, err := a.o.Workloads.Workload(ctx, in.ID)
	if errors.Is(err, pool.ErrWorkloadNotFound) {
		return &deleteWorkloadOut{Status: http.StatusNoContent}, nil
	}
	if err != nil {
		return nil, err
	}
	v := viewWorkload(r)
	return &deleteWorkloadOut{Status: http.StatusAccepted, Body: &v}, nil
}
