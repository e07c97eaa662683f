package api

import (
	"context"
	"io"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler/hostler/pool"
)

// Containers has the methods on containers that the API needs.
type Containers interface {
	Container(ctx context.Context, id string) (pool.Container, error)
	Containers(ctx context.Context, f pool.ContainerFilter) ([]pool.Container, error)
	DestroyContainer(ctx context.Context, id string, force bool) error
	DestroyContainerNow(ctx context.Context, id string, force bool) error
	Logs(ctx context.Context, id string, tail int64) (io.ReadCloser, error)
}

type containerPath struct {
	ID string `path:"id" maxLength:"128" doc:"The container's id."`
}

type containerOut struct{ Body pool.Container }

func viewContainer(ctx context.Context, c pool.Container) pool.Container {
	if c.Endpoint.Ports == nil {
		c.Endpoint.Ports = []int{}
	}
	return viewOf(ctx).container(c)
}

type listContainersIn struct {
	Paging
	Selection
	Workload string   `query:"workload" maxLength:"128"`
	Tenant   string   `query:"tenant" maxLength:"200"`
	State    []string `query:"state,explode" doc:"creating, idle, claimed, destroying or destroyed; several as a list with commas or repeated."`
}

func (a *API) listContainers(ctx context.Context, in *listContainersIn) (*struct{ Body *Page[pool.Container] }, error) {
	wanted, err := states(in.State, pool.States())
	if err != nil {
		return nil, err
	}
	items, err := a.o.Containers.Containers(ctx, pool.ContainerFilter{
		Workload: in.Workload, Tenant: in.Tenant, States: wanted, After: in.After, IDPart: in.IDPart, Newest: in.isNewest(), Limit: in.Limit + 1,
		Scope: scopeOf(ctx),
	})
	if err != nil {
		return nil, err
	}
	page := pageOf(items, in.Limit, func(c pool.Container) string { return c.ID })
	for i, c := range page.Items {
		page.Items[i] = viewContainer(ctx, c)
	}
	return &struct{ Body *Page[pool.Container] }{page}, nil
}

func (a *API) getContainer(ctx context.Context, in *containerPath) (*containerOut, error) {
	c, err := a.o.Containers.Container(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &containerOut{viewContainer(ctx, c)}, nil
}

type destroyIn struct {
	ID    string `path:"id" maxLength:"128" doc:"The container's id."`
	Force bool   `query:"force" doc:"Destroy it even if a claim holds it. A hook that runs in it is ended."`
	Now   bool   `query:"now" doc:"Without its pre_destroy hooks; those that run are ended."`
}

// destroyContainer returns the record afterwards: destroying or destroyed, or
// claimed if a claim held it.
func (a *API) destroyContainer(ctx context.Context, in *destroyIn) (*containerOut, error) {
	destroy := a.o.Containers.DestroyContainer
	if in.Now {
		destroy = a.o.Containers.DestroyContainerNow
	}
	if err := destroy(ctx, in.ID, in.Force); err != nil {
		return nil, err
	}
	return a.getContainer(ctx, &containerPath{in.ID})
}

type logsIn struct {
	ID   string `path:"id" maxLength:"128" doc:"The container's id."`
	Tail int64  `query:"tail" minimum:"1" maximum:"10485760" default:"65536" doc:"The maximum number of bytes."`
}

type streamOut struct{ Body func(huma.Context) }

func (a *API) containerLogs(ctx context.Context, in *logsIn) (*streamOut, error) {
	logs, err := a.o.Containers.Logs(ctx, in.ID, in.Tail)
	if err != nil {
		return nil, err
	}
	return &streamOut{func(c huma.Context) {
		defer logs.Close() //nolint:errcheck // it was only read
		c.SetHeader("Content-Type", "text/plain; charset=utf-8")
		c.SetStatus(200)
		if _, err := io.Copy(c.BodyWriter(), logs); err != nil {
			// The status is already sent: only an aborted response can report
			// the error.
			abort(ctx, a.o.Log, "read the logs of container "+in.ID, err)
		}
	}}, nil
}
