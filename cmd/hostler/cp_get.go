package main

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/client"
)

// get copies out of the container.
func (c *copier) get(ctx context.Context) error {
	isDir, exists, err := c.isRemoteDir(ctx, c.remote.path)
	if err != nil {
		return err
	}
	if exists && !isDir && (c.remote.inside || c.remote.isDir) {
		return fmt.Errorf("%s:%s is not a directory", c.remote.claim, c.remote.path)
	}
	if c.local.isStream {
		return c.getStream(ctx, isDir || c.asTar)
	}
	// A path that does not exist is the server's error.
	if !isDir {
		return c.getFile(ctx)
	}
	return c.getTree(ctx)
}

func (c *copier) getStream(ctx context.Context, asTar bool) error {
	var content io.ReadCloser
	var err error
	switch {
	case !asTar:
		content, err = c.OpenFile(ctx, c.remote.claim, c.remote.path, client.FileRange{})
	case isTerminal(c.out):
		return errors.New("a tar is not printed on a terminal: redirect the output")
	default:
		content, err = c.ReadTree(ctx, c.remote.claim, c.remote.path)
	}
	if err != nil {
		return err
	}
	defer content.Close() //nolint:errcheck // it was only read
	out := sanitizeFor(c.out, isTerminal(c.out))
	_, err = io.Copy(out, counted{content, &c.bytes})
	return errors.Join(err, out.Close())
}

// localTarget opens the directory that gets the source, and returns the name that it
// gets there. The user has chosen the directory; a link below it may be a tenant's.
func (c *copier) localTarget() (*os.Root, string, error) {
	info, err := os.Stat(c.local.path)
	switch {
	case err == nil && info.IsDir() && c.remote.inside:
		root, err := os.OpenRoot(c.local.path)
		return root, ".", err
	case err == nil && info.IsDir():
		name := path.Base(c.remote.path)
		if c.remote.path == "/" {
			name = "."
		}
		if !filepath.IsLocal(name) {
			return nil, "", fmt.Errorf("this machine has no file names such as %q: write the name of the destination", name)
		}
		root, err := os.OpenRoot(c.local.path)
		return root, name, err
	case c.local.isDir && err == nil:
		return nil, "", fmt.Errorf("%s is not a directory", c.local.path)
	case c.local.isDir:
		return nil, "", err
	}
	root, err := os.OpenRoot(filepath.Dir(c.local.path))
	return root, filepath.Base(c.local.path), err
}

func (c *copier) getFile(ctx context.Context) error {
	f, err := c.OpenFile(ctx, c.remote.claim, c.remote.path, client.FileRange{})
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	root, name, err := c.localTarget()
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // it was only read
	return c.writeLocal(root, name, f.Mode, f.Modified, f)
}

func (c *copier) getTree(ctx context.Context) error {
	root, name, err := c.localTarget()
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // it was only read
	archive, err := c.ReadTree(ctx, c.remote.claim, c.remote.path)
	if err != nil {
		return err
	}
	defer archive.Close() //nolint:errcheck // it was only read
	if err := root.MkdirAll(name, 0o777); err != nil {
		return err
	}
	dir, err := root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // it was only read
	return c.unpack(dir, archive)
}

// maxLocalDirs bounds the directories of an archive, whose modes are kept in memory
// until its end.
const maxLocalDirs = 1 << 20

// unpack unpacks an archive from a container. The tenant has chosen all of it, and
// may change it while it is packed: root keeps each write below the destination.
func (c *copier) unpack(root *os.Root, archive io.Reader) error {
	r := tar.NewReader(archive)
	dirs := map[string]*tar.Header{} // their modes come last: one that is read-only gets files before
	for {
		h, err := r.Next()
		if err == io.EOF { //nolint:errorlint // Next returns it itself
			break
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		name := filepath.FromSlash(path.Clean(h.Name))
		if !filepath.IsLocal(name) {
			return fmt.Errorf("the archive has a name that this machine cannot have below the destination: %q", h.Name)
		}
		if h.Typeflag == tar.TypeDir {
			if dirs[name] = h; len(dirs) > maxLocalDirs {
				return errors.New("the archive has too many directories")
			}
		}
		if err := c.unpackOne(root, name, h, r); err != nil {
			return err
		}
	}
	// The stream is complete only if it ends after the archive.
	if _, err := io.Copy(io.Discard, archive); err != nil {
		return fmt.Errorf("read the archive: %w", err)
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(dirs))) { // what is below one before it
		if err := setAttributes(root, name, dirs[name].FileInfo().Mode(), dirs[name].ModTime); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) unpackOne(root *os.Root, name string, h *tar.Header, content io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg:
		return c.writeLocal(root, name, h.FileInfo().Mode(), h.ModTime, content)
	case tar.TypeDir:
		c.files++
		return root.MkdirAll(name, 0o777)
	case tar.TypeSymlink:
		c.files++
		return replace(root, name, func(temporary string) error {
			return root.Symlink(filepath.FromSlash(h.Linkname), temporary)
		})
	}
	c.skipped++
	return nil
}

// writeLocal writes a file of this machine. It appears under its name when all of the
// content has arrived. A link of its name is replaced.
func (c *copier) writeLocal(root *os.Root, name string, mode fs.FileMode, modified time.Time, content io.Reader) error {
	c.files++
	return replace(root, name, func(temporary string) error {
		f, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, counted{content, &c.bytes})
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		return setAttributes(root, temporary, mode, modified)
	})
}

// replace has create make a file under a temporary name, and gives it its name.
func replace(root *os.Root, name string, create func(temporary string) error) error {
	temporary := filepath.Join(filepath.Dir(name), ".hostler-"+strings.ToLower(rand.Text())+".tmp")
	err := create(temporary)
	if err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		_ = root.Remove(temporary) // it may not exist
	}
	return err
}

// setAttributes sets permissions and time. It sets no bit that gives a program the
// rights of its owner: a tenant would choose it.
func setAttributes(root *os.Root, name string, mode fs.FileMode, modified time.Time) error {
	if err := root.Chmod(name, mode.Perm()); err != nil {
		return err
	}
	if modified.IsZero() {
		return nil
	}
	return root.Chtimes(name, modified, modified)
}
