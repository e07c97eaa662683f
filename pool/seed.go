package pool

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// ErrSeed is returned if a seed directory cannot be copied.
var ErrSeed = errors.New("cannot seed")

// Seed copies the seed directories of w, which are below dir, into the
// container's volumes, which must not have any data of a tenant. It omits the
// container paths for which covered returns true, if covered is not nil, and
// directories that are then empty. Seed reports whether there was a volume to
// seed.
func Seed(ctx context.Context, files runtime.Files, id string, fence int64, w *workload.Workload, dir string, covered func(path string) bool) (bool, error) {
	if covered == nil {
		covered = func(string) bool { return false }
	}
	seeded := false
	for _, v := range w.Volumes {
		if v.Seed == "" {
			continue
		}
		if dir == "" {
			return seeded, fmt.Errorf("%w volume %s: the workload was not loaded from a directory", ErrSeed, v.Name)
		}
		if err := seedVolume(v, dir, covered, func(r io.Reader) error { return files.CopyIn(ctx, id, v.Target, fence, r) }); err != nil {
			return seeded, err
		}
		seeded = true
	}
	return seeded, nil
}

// seedVolume streams one directory into one volume.
func seedVolume(v workload.Volume, dir string, covered func(string) bool, copyIn func(tar io.Reader) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("%w volume %s: %w", ErrSeed, v.Name, err)
	}
	defer root.Close()
	// The seed must be below the directory even if a link points outside.
	seed, err := root.OpenRoot(filepath.Clean(v.Seed))
	if err != nil {
		return fmt.Errorf("%w volume %s from %s: %w", ErrSeed, v.Name, v.Seed, err)
	}
	defer seed.Close()

	r, w := io.Pipe()
	var g errgroup.Group
	g.Go(func() error {
		err := writeTar(w, seed.FS(), func(name string) bool { return covered(path.Join(v.Target, name)) })
		w.CloseWithError(err)
		return err
	})
	err = copyIn(r)
	r.CloseWithError(io.ErrClosedPipe)
	if packErr := g.Wait(); packErr != nil && !errors.Is(packErr, io.ErrClosedPipe) {
		err = errors.Join(err, packErr)
	}
	if err != nil {
		return fmt.Errorf("%w volume %s from %s: %w", ErrSeed, v.Name, v.Seed, err)
	}
	return nil
}

// writeTar writes a tree as a tar stream, without the covered paths. A covered
// directory is written if it has an entry that is not covered.
func writeTar(w io.Writer, tree fs.FS, covered func(name string) bool) error {
	t := tar.NewWriter(w)
	written := map[string]bool{".": true}
	var addDir func(name string) error
	addDir = func(name string) error {
		if written[name] {
			return nil
		}
		if err := addDir(path.Dir(name)); err != nil {
			return err
		}
		written[name] = true
		return writeTarEntry(t, tree, name)
	}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == "." || covered(name):
			return nil
		case d.IsDir():
			return addDir(name)
		}
		if err := addDir(path.Dir(name)); err != nil {
			return err
		}
		return writeTarEntry(t, tree, name)
	})
	if err != nil {
		return err
	}
	return t.Close()
}

// writeTarEntry writes one file, directory or symbolic link.
func writeTarEntry(t *tar.Writer, tree fs.FS, name string) error {
	info, err := fs.Lstat(tree, name)
	if err != nil {
		return err
	}
	target := ""
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		if target, err = fs.ReadLink(tree, name); err != nil {
			return err
		}
	case !info.Mode().IsRegular() && !info.IsDir():
		return fmt.Errorf("%s is not a file, directory or symbolic link", name)
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	if h.Name = name; info.IsDir() {
		h.Name += "/"
	}
	if err := t.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := tree.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	_, err = io.Copy(t, f)
	return err
}
