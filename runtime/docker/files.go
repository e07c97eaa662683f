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

// CopyIn is runtime.Files.CopyIn.
func (r *Runtime) CopyIn(ctx context.Context, id, dir string, tar io.Reader) error {
	if err := r.copyIn(ctx, id, dir, tar); err != nil {
		return fmt.Errorf("copy files into %s of the container %s: %w", dir, id, err)
	}
	return nil
}

func (r *Runtime) copyIn(ctx context.Context, id, dir string, tar io.Reader) error {
	c, _, err := r.lookupCompatible(ctx, id)
	if err != nil {
		return err
	}
	return r.sessions.Get(id).CopyIn(ctx, writablePath(c.Mounts, dir), tar)
}

// writablePath returns where a directory can be written: the directory itself,
// or, on a volume that is read-only in the container, the same directory in the
// writable mirror of the volume.
func writablePath(mounts []container.MountPoint, dir string) string {
	dir = path.Clean(dir)
	var mnt container.MountPoint // the mount that dir is on: the longest target above it
	mirrors := make(map[string]string)
	for _, m := range mounts {
		if strings.HasPrefix(m.Destination, shim.WritableMirrorDir+"/") {
			mirrors[m.Name] = m.Destination
		} else if (dir == m.Destination || strings.HasPrefix(dir, m.Destination+"/")) &&
			len(m.Destination) > len(mnt.Destination) {
			mnt = m
		}
	}
	if mirror, ok := mirrors[mnt.Name]; ok && !mnt.RW {
		return mirror + strings.TrimPrefix(dir, mnt.Destination)
	}
	return dir
}

// CopyOut is runtime.Files.CopyOut.
func (r *Runtime) CopyOut(ctx context.Context, id, dir string) (io.ReadCloser, error) {
	files, err := r.sessions.Get(id).CopyOut(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("copy files from %s of the container %s: %w", dir, id, err)
	}
	return files, nil
}

// LastModified is runtime.Files.LastModified.
func (r *Runtime) LastModified(ctx context.Context, id string, dirs []string) (time.Time, error) {
	at, err := r.sessions.Get(id).LastModified(ctx, dirs)
	if err != nil {
		return at, fmt.Errorf("find the last change in the container %s: %w", id, err)
	}
	return at, nil
}
