package backend

import (
	"context"
	"io"
	"path"
	"strings"

	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/tree"
)

var _ tree.Trees = Containers{}

// Mount is where a volume appears in a container.
type Mount struct {
	Volume   string // one that appears twice has one name
	Target   string
	ReadOnly bool
}

// CopyIn implements runtime.Files.CopyIn.
func (c Containers) CopyIn(ctx context.Context, id, dir string, fence int64, tar io.Reader) error {
	return wrap(c.copyIn(ctx, id, dir, fence, tar), "copy files into %s of the container %s", dir, id)
}

func (c Containers) copyIn(ctx context.Context, id, dir string, fence int64, tar io.Reader) error {
	dir, err := c.writablePath(ctx, id, dir)
	if err != nil {
		return err
	}
	return c.sessions.Get(id).CopyIn(ctx, dir, fence, tar)
}

// writablePath returns where a directory of a container can be written.
func (c Containers) writablePath(ctx context.Context, id, dir string) (string, error) {
	if c.options.Mounts == nil {
		return dir, nil
	}
	mounts, err := c.options.Mounts(ctx, id)
	if err != nil {
		return "", err
	}
	return writablePath(mounts, dir), nil
}

// ScanTree implements tree.Trees.ScanTree.
func (c Containers) ScanTree(ctx context.Context, id, dir string, o tree.ScanOptions) (tree.Scan, error) {
	scan, err := c.sessions.Get(id).ScanTree(ctx, dir, o)
	return scan, wrap(err, "scan the files in %s of the container %s", dir, id)
}

// FillTree implements tree.Trees.FillTree.
func (c Containers) FillTree(ctx context.Context, id, dir string, fence int64, stamped func([]tree.Stamp)) (tree.Writer, error) {
	w, err := c.fillTree(ctx, id, dir, fence, stamped)
	return w, wrap(err, "write files into %s of the container %s", dir, id)
}

func (c Containers) fillTree(ctx context.Context, id, dir string, fence int64, stamped func([]tree.Stamp)) (tree.Writer, error) {
	dir, err := c.writablePath(ctx, id, dir)
	if err != nil {
		return nil, err
	}
	return c.sessions.Get(id).FillTree(ctx, dir, fence, stamped)
}

// CopyOut implements runtime.Files.CopyOut.
func (c Containers) CopyOut(ctx context.Context, id, dir string) (io.ReadCloser, error) {
	files, err := c.sessions.Get(id).CopyOut(ctx, dir)
	return files, wrap(err, "copy files from %s of the container %s", dir, id)
}

// writablePath returns where a directory can be written: the directory itself,
// or, on a volume that is read-only in the container, the same directory in the
// writable mirror of the volume.
func writablePath(mounts []Mount, dir string) string {
	dir = path.Clean(dir)
	var mnt Mount // the mount that dir is on: the longest target above it
	mirrors := make(map[string]string)
	for _, m := range mounts {
		m.Target = path.Clean(m.Target)
		if strings.HasPrefix(m.Target, shim.WritableMirrorDir+"/") {
			mirrors[m.Volume] = m.Target
		} else if (dir == m.Target || strings.HasPrefix(dir, m.Target+"/")) && len(m.Target) > len(mnt.Target) {
			mnt = m
		}
	}
	if mirror, ok := mirrors[mnt.Volume]; ok && mnt.ReadOnly {
		return mirror + strings.TrimPrefix(dir, mnt.Target)
	}
	return dir
}
