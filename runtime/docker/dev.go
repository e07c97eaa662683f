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

// Import creates an image of one layer from a root filesystem, for a
// demonstration or a test that must not need a registry. The changes are lines
// of a Dockerfile: "CMD [...]", "WORKDIR /x". It replaces an image of that
// reference.
func (r *Runtime) Import(ctx context.Context, ref string, rootfs io.Reader, changes ...string) error {
	answer, err := r.api.ImageImport(ctx, image.ImportSource{Source: rootfs, SourceName: "-"}, ref,
		image.ImportOptions{Changes: changes})
	if err != nil {
		return fmt.Errorf("import the image %s: %w", ref, r.apiError(ctx, err))
	}
	defer answer.Close()
	if _, err := io.Copy(io.Discard, answer); err != nil {
		return fmt.Errorf("import the image %s: %w", ref, r.apiError(ctx, err))
	}
	return nil
}

// Purge removes everything that bears this instance's label, containers first,
// and the images of the given references. It leaves what another owner still
// uses, as another instance may use the network or the shim. Nothing to remove
// is nil.
func (r *Runtime) Purge(ctx context.Context, images ...string) error {
	containers, err := r.List(ctx)
	if err != nil {
		return err
	}
	var errs error
	for _, c := range containers {
		errs = errors.Join(errs, r.Destroy(ctx, c.ID))
	}
	errs = errors.Join(errs, r.sweepCopyHelpers(ctx, 0), r.purgeVolumes(ctx), r.purgeNetworks(ctx))
	for _, ref := range images {
		_, err := r.api.ImageRemove(ctx, ref, image.RemoveOptions{PruneChildren: true})
		if err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) {
			errs = errors.Join(errs, fmt.Errorf("remove the image %s: %w", ref, r.apiError(ctx, err)))
		}
	}
	return errs
}

func (r *Runtime) purgeVolumes(ctx context.Context) error {
	volumes, err := r.api.VolumeList(ctx, volume.ListOptions{Filters: r.instanceFilter()})
	if err != nil {
		return fmt.Errorf("list the volumes: %w", r.apiError(ctx, err))
	}
	var errs error
	for _, v := range volumes.Volumes {
		err := r.api.VolumeRemove(ctx, v.Name, false)
		if err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) {
			errs = errors.Join(errs, fmt.Errorf("remove the volume %s: %w", v.Name, r.apiError(ctx, err)))
		}
	}
	return errs
}

func (r *Runtime) purgeNetworks(ctx context.Context) error {
	networks, err := r.api.NetworkList(ctx, network.ListOptions{Filters: r.instanceFilter()})
	if err != nil {
		return fmt.Errorf("list the networks: %w", r.apiError(ctx, err))
	}
	var errs error
	for _, n := range networks {
		err := r.api.NetworkRemove(ctx, n.ID)
		if err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) && !cerrdefs.IsPermissionDenied(err) {
			errs = errors.Join(errs, fmt.Errorf("remove the network %s: %w", n.Name, r.apiError(ctx, err)))
		}
	}
	return errs
}
