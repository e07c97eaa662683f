package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// The labels on what we make. Everything bears managed and instance; a
// container also what a later Hostler must know of it.
const (
	labelManaged   = "hostler.managed"
	labelInstance  = "hostler.instance"
	labelContainer = "hostler.container"
	labelWorkload  = "hostler.workload"
	labelRevision  = "hostler.revision"
	labelUser      = "hostler.user"     // whom the container's files belong to
	labelPorts     = "hostler.ports"    // decimal, with commas between
	labelProtocol  = "hostler.protocol" // the version that its shim speaks
	labelRole      = "hostler.role"     // of a container that holds no workload
)

// containerName is the engine's name for the container of an id.
func containerName(id string) string { return "hostler-" + id }

// volumeName is the engine's name for a container's own volume.
func volumeName(id, volume string) string { return containerName(id) + "-" + volume }

// stateVolume is the engine's name for what the shim of a container keeps. No
// volume of a workload has an underscore in its name.
func stateVolume(id string) string { return containerName(id) + "_state" }

// labels are the given ones and those that everything of ours bears.
func (r *Runtime) labels(extra map[string]string) map[string]string {
	all := map[string]string{labelManaged: "true", labelInstance: r.instance}
	maps.Copy(all, extra)
	return all
}

// instanceFilter selects what bears this instance's labels, and those given.
func (r *Runtime) instanceFilter(extra ...string) filters.Args {
	args := filters.NewArgs(
		filters.Arg("label", labelManaged+"=true"),
		filters.Arg("label", labelInstance+"="+r.instance))
	for _, label := range extra {
		args.Add("label", label)
	}
	return args
}

// errForeign is a container by the name that ours would have, made by somebody
// else: for all purposes but that of making ours, there is none.
var errForeign = fmt.Errorf("%w: one by its name belongs to somebody else", runtime.ErrNotFound)

// lookup looks a container up by its name and makes sure that it is ours, be it
// of a newer server.
func (r *Runtime) lookup(ctx context.Context, id string) (container.InspectResponse, error) {
	if id == "" {
		return container.InspectResponse{}, fmt.Errorf("%w: its id is empty", runtime.ErrNotFound)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)
	defer cancel()
	c, err := r.api.ContainerInspect(ctx, containerName(id))
	if err != nil {
		return c, r.apiError(ctx, err)
	}
	if c.Config == nil || c.State == nil || c.Config.Labels[labelInstance] != r.instance ||
		c.Config.Labels[labelContainer] != id {
		return c, errForeign
	}
	return c, nil
}

// lookupRemovable is find for what ends the container: one of a newer server is
// runtime.ErrNewer.
func (r *Runtime) lookupRemovable(ctx context.Context, id string) (container.InspectResponse, error) {
	c, err := r.lookup(ctx, id)
	if err != nil {
		return c, err
	}
	if _, err := shim.Protocols().Parse(c.Config.Labels[labelProtocol]); errors.Is(err, runtime.ErrNewer) {
		return c, err
	}
	return c, nil
}
