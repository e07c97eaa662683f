package pool

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// ErrSeed says that a seed folder cannot be read.
var ErrSeed = errors.New("cannot seed")

// Seed copies the seed folders of w, which lie below dir, into the container's
// volumes, which must be empty. It says whether there was anything to copy.
func Seed(ctx context.Context, files runtime.Files, id string, w *workload.Workload, dir string) (bool, error) {
	seeded := false
	for _, v := range w.Volumes {
		if v.Seed == "" {
			continue
		}
		if dir == "" {
			return seeded, fmt.Errorf("%w volume %s: the workload was not loaded from a folder", ErrSeed, v.Name)
		}
		if err := seedVolume(ctx, files, id, v, dir); err != nil {
			return seeded, err
		}
		seeded = true
	}
	return seeded, nil
}

// seedVolume streams one folder into one volume.
func seedVolume(ctx context.Context, files runtime.Files, id string, v workload.Volume, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("%w volume %s: %w", ErrSeed, v.Name, err)
	}
	defer root.Close()
	// The seed must stay below the folder even where a link points outside.
	seed, err := root.OpenRoot(filepath.Clean(v.Seed))
	if err != nil {
		return fmt.Errorf("%w volume %s from %s: %w", ErrSeed, v.Name, v.Seed, err)
	}
	defer seed.Close()

	r, w := io.Pipe()
	var g errgroup.Group
	g.Go(func() error {
		err := pack(w, seed)
		w.CloseWithError(err)
		return err
	})
	err = files.PutFiles(ctx, id, v.Target, r)
	r.CloseWithError(io.ErrClosedPipe)
	if packErr := g.Wait(); packErr != nil && !errors.Is(packErr, io.ErrClosedPipe) {
		err = errors.Join(err, packErr)
	}
	if err != nil {
		return fmt.Errorf("%w volume %s from %s: %w", ErrSeed, v.Name, v.Seed, err)
	}
	return nil
}

// pack writes what is below root as a tar stream.
func pack(w io.Writer, root *os.Root) error {
	t := tar.NewWriter(w)
	if err := t.AddFS(root.FS()); err != nil {
		return err
	}
	return t.Close()
}
