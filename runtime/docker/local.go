package docker

import (
	"context"
	"errors"
	"fmt"
	"io"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
)

// Import makes an image of one layer out of a root filesystem, for a
// demonstration or a test that must not need a registry. The changes are lines
// of a Dockerfile: "CMD [...]", "WORKDIR /x". An image of that reference is
// replaced.
func (r *Runtime) Import(ctx context.Context, ref string, rootfs io.Reader, changes ...string) error {
	answer, err := r.api.ImageImport(ctx, image.ImportSource{Source: rootfs, SourceName: "-"}, ref,
		image.ImportOptions{Changes: changes})
	if err != nil {
		return fmt.Errorf("import the image %s: %w", ref, r.fault(ctx, err))
	}
	defer answer.Close()
	if _, err := io.Copy(io.Discard, answer); err != nil {
		return fmt.Errorf("import the image %s: %w", ref, r.fault(ctx, err))
	}
	return nil
}

// Purge removes everything that bears this instance's label, containers first,
// and the images of the given references. What somebody else still uses, as
// another instance may the network or the shim, stays. Nothing to remove is
// nil.
func (r *Runtime) Purge(ctx context.Context, images ...string) error {
	containers, err := r.List(ctx)
	if err != nil {
		return err
	}
	var all error
	for _, c := range containers {
		all = errors.Join(all, r.Destroy(ctx, c.ID))
	}
	all = errors.Join(all, r.sweepCarriers(ctx, 0), r.purgeVolumes(ctx), r.purgeNetworks(ctx))
	for _, ref := range images {
		_, err := r.api.ImageRemove(ctx, ref, image.RemoveOptions{PruneChildren: true})
		if err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) {
			all = errors.Join(all, fmt.Errorf("remove the image %s: %w", ref, r.fault(ctx, err)))
		}
	}
	return all
}

func (r *Runtime) purgeVolumes(ctx context.Context) error {
	volumes, err := r.api.VolumeList(ctx, volume.ListOptions{Filters: r.ours()})
	if err != nil {
		return fmt.Errorf("list the volumes: %w", r.fault(ctx, err))
	}
	var all error
	for _, v := range volumes.Volumes {
		err := r.api.VolumeRemove(ctx, v.Name, false)
		if err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) {
			all = errors.Join(all, fmt.Errorf("remove the volume %s: %w", v.Name, r.fault(ctx, err)))
		}
	}
	return all
}

func (r *Runtime) purgeNetworks(ctx context.Context) error {
	networks, err := r.api.NetworkList(ctx, network.ListOptions{Filters: r.ours()})
	if err != nil {
		return fmt.Errorf("list the networks: %w", r.fault(ctx, err))
	}
	var all error
	for _, n := range networks {
		err := r.api.NetworkRemove(ctx, n.ID)
		if err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) && !cerrdefs.IsPermissionDenied(err) {
			all = errors.Join(all, fmt.Errorf("remove the network %s: %w", n.Name, r.fault(ctx, err)))
		}
	}
	return all
}
