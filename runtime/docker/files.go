package docker

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/hostler/hostler/runtime/shim"
)

// PutFiles is runtime.Files.PutFiles.
func (r *Runtime) PutFiles(ctx context.Context, id, dir string, tar io.Reader) error {
	if err := r.putFiles(ctx, id, dir, tar); err != nil {
		return fmt.Errorf("put files into %s of the container %s: %w", dir, id, err)
	}
	return nil
}

func (r *Runtime) putFiles(ctx context.Context, id, dir string, tar io.Reader) error {
	c, _, err := r.spoken(ctx, id)
	if err != nil {
		return err
	}
	return r.sessions.With(id).PutFiles(ctx, writable(c.Mounts, dir), tar)
}

// writable is where a folder can be written: itself, or, on a volume that the
// container may only read, the same folder where the volume is mounted aside.
func writable(mounts []container.MountPoint, dir string) string {
	dir = path.Clean(dir)
	var on container.MountPoint // what dir is on: the longest target above it
	aside := make(map[string]string)
	for _, m := range mounts {
		if strings.HasPrefix(m.Destination, shim.AsideDir+"/") {
			aside[m.Name] = m.Destination
		} else if (dir == m.Destination || strings.HasPrefix(dir, m.Destination+"/")) &&
			len(m.Destination) > len(on.Destination) {
			on = m
		}
	}
	if other, ok := aside[on.Name]; ok && !on.RW {
		return other + strings.TrimPrefix(dir, on.Destination)
	}
	return dir
}

// GetFiles is runtime.Files.GetFiles.
func (r *Runtime) GetFiles(ctx context.Context, id, dir string) (io.ReadCloser, error) {
	files, err := r.sessions.With(id).GetFiles(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("get the files in %s of the container %s: %w", dir, id, err)
	}
	return files, nil
}

// Changed is runtime.Files.Changed.
func (r *Runtime) Changed(ctx context.Context, id string, dirs []string) (time.Time, error) {
	at, err := r.sessions.With(id).Changed(ctx, dirs)
	if err != nil {
		return at, fmt.Errorf("look for changes in the container %s: %w", id, err)
	}
	return at, nil
}
