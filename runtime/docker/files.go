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

// untarArgs is our program that unpacks its stdin for a user.
func untarArgs(user, dir string) []string {
	if user == "" {
		user = "0:0"
	}
	return []string{shim.Path, "untar", "--user", user, "--", dir}
}

// tarArgs is our program that packs a folder.
func tarArgs(dir string) []string { return []string{shim.Path, "tar", "--", dir} }

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
	s, err := r.run(ctx, c.ID, asRoot, untarArgs(c.Config.Labels[labelUser], writable(c.Mounts, dir))...)
	if err != nil {
		return err
	}
	return shim.Send(ctx, s, tar)
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
	files, err := r.getFiles(ctx, id, dir)
	if err != nil {
		return nil, fmt.Errorf("get the files in %s of the container %s: %w", dir, id, err)
	}
	return files, nil
}

func (r *Runtime) getFiles(ctx context.Context, id, dir string) (io.ReadCloser, error) {
	c, _, err := r.spoken(ctx, id)
	if err != nil {
		return nil, err
	}
	s, err := r.run(ctx, c.ID, asRoot, tarArgs(dir)...)
	if err != nil {
		return nil, err
	}
	return shim.Receive(ctx, s)
}

// Changed is runtime.Files.Changed.
func (r *Runtime) Changed(ctx context.Context, id string, dirs []string) (time.Time, error) {
	at, err := r.sessions.With(id).Changed(ctx, dirs)
	if err != nil {
		return at, fmt.Errorf("look for changes in the container %s: %w", id, err)
	}
	return at, nil
}
