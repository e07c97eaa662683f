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

// The labels on what we create. Everything has managed and instance; a
// container also has what a later Hostler must know of it.
const (
	labelManaged   = "hostler.managed"
	labelInstance  = "hostler.instance"
	labelContainer = "hostler.container"
	labelWorkload  = "hostler.workload"
	labelRevision  = "hostler.revision"
	labelUser      = "hostler.user"     // who owns the container's files
	labelPorts     = "hostler.ports"    // decimal, separated by commas
	labelProtocol  = "hostler.protocol" // the version that its shim supports
	labelRole      = "hostler.role"     // of a container that holds no workload
)

// containerName returns the engine's name for the container of an id.
func containerName(id string) string { return "hostler-" + id }

// volumeName returns the engine's name for a container's own volume.
func volumeName(id, volume string) string { return containerName(id) + "-" + volume }

// stateVolume returns the engine's name for the volume of the shim's state. No
// volume of a workload has an underscore in its name.
func stateVolume(id string) string { return containerName(id) + "_state" }

// labels returns the given labels and those that everything of ours has.
func (r *Runtime) labels(extra map[string]string) map[string]string {
	all := map[string]string{labelManaged: "true", labelInstance: r.instance}
	maps.Copy(all, extra)
	return all
}

// instanceFilter selects what has this instance's labels, and those given.
func (r *Runtime) instanceFilter(extra ...string) filters.Args {
	args := filters.NewArgs(
		filters.Arg("label", labelManaged+"=true"),
		filters.Arg("label", labelInstance+"="+r.instance))
	for _, label := range extra {
		args.Add("label", label)
	}
	return args
}

// errForeign reports a container of the name that ours would have, created by
// another owner. Except when we create ours, it does not count.
var errForeign = fmt.Errorf("%w: the container of its name belongs to another owner", runtime.ErrNotFound)

// lookup inspects a container by its name and checks that it is ours. It also
// finds one of a newer server.
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

// lookupRemovable is lookup for operations that destroy the container: for one
// of a newer server it returns runtime.ErrNewer.
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
