package docker

import (
	"archive/tar"
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/hostler/hostler/runtime"
)

// accountFiles are the files that the engine reads in the root filesystem of a
// container to start it.
var accountFiles = []string{"/etc/passwd", "/etc/group"}

const (
	// maxAccountFile bounds the size of an account file that the engine may read.
	maxAccountFile = 4 << 20
	// maxAccountLinks bounds the number of symbolic links to one.
	maxAccountLinks = 16
)

// checkAccountFiles returns runtime.ErrTainted when the engine must not start a
// container that has exited, because a tenant has replaced an account file with
// something other than a file. The engine opens these files with the
// container locked: a FIFO blocks that call, and every later call about the
// container, until someone on the engine's machine writes to the FIFO.
//
// The check has no race, because no process runs in the container. It reads
// metadata only.
func (r *Runtime) checkAccountFiles(ctx context.Context, c container.InspectResponse) error {
	if c.HostConfig != nil && c.HostConfig.ReadonlyRootfs || c.State.Status == container.StateCreated {
		return nil // they belong to the image
	}
	for _, file := range accountFiles {
		if err := r.checkAccountFile(ctx, c, file); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runtime) checkAccountFile(ctx context.Context, c container.InspectResponse, file string) error {
	at := file
	for range maxAccountLinks {
		target, err := r.walk(ctx, c, at)
		switch {
		case cerrdefs.IsNotFound(err):
			return nil // the engine does not need it
		case err != nil:
			return fmt.Errorf("check %s: %w", file, err)
		case target == "":
			return nil
		}
		at = target
	}
	return fmt.Errorf("check %s: %w: it has too many symbolic links", file, runtime.ErrTainted)
}

// walk follows an absolute path without links before it. It returns "" when the
// path is that of a file, or the path to continue with when a part of it is a
// symbolic link. Other errors than runtime.ErrTainted are the engine's.
func (r *Runtime) walk(ctx context.Context, c container.InspectResponse, file string) (target string, err error) {
	parts := strings.Split(strings.TrimPrefix(path.Clean(file), "/"), "/")
	at := "/"
	for n, part := range parts {
		at = path.Join(at, part)
		if isHidden(c, at) {
			return "", fmt.Errorf("%w: %s is on another filesystem", runtime.ErrTainted, at)
		}
		stat, err := r.api.ContainerStatPath(ctx, c.ID, at)
		if err != nil {
			return "", err
		}
		last := n == len(parts)-1
		switch {
		case stat.Mode&os.ModeSymlink != 0:
			link, err := r.readLink(ctx, c.ID, at)
			if err != nil {
				return "", err
			}
			if !path.IsAbs(link) {
				link = path.Join(path.Dir(at), link)
			}
			return path.Join(append([]string{link}, parts[n+1:]...)...), nil
		case !last && !stat.Mode.IsDir():
			return "", fmt.Errorf("%w: %s is not a directory", runtime.ErrTainted, at)
		case last && !stat.Mode.IsRegular():
			return "", fmt.Errorf("%w: %s is not a regular file", runtime.ErrTainted, at)
		case last && stat.Size > maxAccountFile:
			return "", fmt.Errorf("%w: %s has more than %d MiB", runtime.ErrTainted, at, maxAccountFile>>20)
		}
	}
	return "", nil
}

// isHidden reports whether the engine and the container may see different files
// at a path. That is so at the kernel's filesystems and at a volume: a tenant
// that has renamed a directory above the volume has made what the engine finds
// there. No tenant can rename the root, so a volume directly below it is safe.
func isHidden(c container.InspectResponse, at string) bool {
	if at == "/dev" || at == "/proc" || at == "/sys" {
		return true
	}
	return path.Dir(at) != "/" && slices.ContainsFunc(c.Mounts, func(m container.MountPoint) bool {
		return path.Clean(m.Destination) == at
	})
}

// readLink returns the target of a symbolic link in a container.
func (r *Runtime) readLink(ctx context.Context, engineID, at string) (string, error) {
	archive, _, err := r.api.CopyFromContainer(ctx, engineID, at)
	if err != nil {
		return "", err
	}
	defer archive.Close()
	header, err := tar.NewReader(archive).Next()
	if err != nil {
		return "", fmt.Errorf("read the symbolic link %s: %w", at, err)
	}
	if header.Typeflag != tar.TypeSymlink {
		return "", fmt.Errorf("%w: %s is no longer a symbolic link", runtime.ErrTainted, at)
	}
	return header.Linkname, nil
}
