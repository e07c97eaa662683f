package main

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
)

// errUploadEnded ends the packing of an archive that is not read any more.
var errUploadEnded = errors.New("the upload has ended")

// put copies into the container.
func (c *copier) put(ctx context.Context) error {
	if c.local.isStream {
		return c.putStream(ctx)
	}
	info, err := os.Stat(c.local.path)
	if err != nil {
		return err
	}
	if !info.IsDir() && (c.local.inside || c.local.isDir) {
		return fmt.Errorf("%s is not a directory", c.local.path)
	}
	target, err := c.remoteTarget(ctx)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return c.putTree(ctx, target)
	}
	f, err := os.Open(c.local.path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	return c.putFile(ctx, target, info.Mode(), f)
}

func (c *copier) putFile(ctx context.Context, target string, mode fs.FileMode, content io.Reader) error {
	c.files++
	_, err := c.WriteFile(ctx, c.remote.claim, target, mode, counted{content, &c.bytes})
	return err
}

func (c *copier) putStream(ctx context.Context) error {
	if !c.asTar {
		if c.remote.isDir {
			return fmt.Errorf("name the file in %s:%s that gets the stream, or unpack a tar with --tar", c.remote.claim, c.remote.path)
		}
		return c.putFile(ctx, c.remote.path, 0o644, c.in)
	}
	packed := tar.NewReader(c.in)
	return c.upload(ctx, c.remote.path, func(w *tar.Writer) error { return c.repack(w, packed) })
}

// remoteTarget returns where in the container the source goes.
func (c *copier) remoteTarget(ctx context.Context) (string, error) {
	if c.local.inside {
		return c.remote.path, nil
	}
	isDir, exists, err := c.isRemoteDir(ctx, c.remote.path)
	if err != nil {
		return "", err
	}
	if !isDir && c.remote.isDir {
		why := "is not a directory"
		if !exists {
			why = "does not exist"
		}
		return "", fmt.Errorf("%s:%s %s", c.remote.claim, c.remote.path, why)
	}
	if !isDir {
		return c.remote.path, nil
	}
	whole, err := filepath.Abs(c.local.path) // the name of ..
	if err != nil {
		return "", err
	}
	return path.Join(c.remote.path, filepath.Base(whole)), nil
}

func (c *copier) putTree(ctx context.Context, target string) error {
	return c.upload(ctx, target, c.pack)
}

// upload sends the tar that pack writes.
func (c *copier) upload(ctx context.Context, target string, pack func(*tar.Writer) error) error {
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() { // ends with the pipe, which is closed below
		t := tar.NewWriter(w)
		err := pack(t)
		if err == nil {
			err = t.Close()
		}
		w.CloseWithError(err) //nolint:errcheck // it never fails
		packed <- err
	}()
	_, err := c.WriteTree(ctx, c.remote.claim, target, r)
	r.CloseWithError(errUploadEnded) //nolint:errcheck // it never fails
	if local := <-packed; local != nil && !errors.Is(local, errUploadEnded) {
		return local
	}
	return err
}

// pack writes the local directory.
func (c *copier) pack(w *tar.Writer) error {
	root, err := os.OpenRoot(c.local.path)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // it was only read
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		switch d.Type() {
		case 0:
			return c.packFile(w, root, name)
		case fs.ModeDir, fs.ModeSymlink:
			return c.packOther(w, root, name)
		}
		c.skipped++
		return nil
	})
}

func (c *copier) packFile(w *tar.Writer, root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := c.packHeader(w, info, name, ""); err != nil {
		return err
	}
	n, err := io.CopyN(w, counted{f, &c.bytes}, info.Size())
	if err == io.EOF { //nolint:errorlint // CopyN returns it itself
		err = fmt.Errorf("%s became shorter while it was copied: %d bytes of %d", name, n, info.Size())
	}
	return err
}

// packOther packs a directory or a link.
func (c *copier) packOther(w *tar.Writer, root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err = root.Readlink(name); err != nil {
			return err
		}
	}
	return c.packHeader(w, info, name, filepath.ToSlash(target))
}

// packHeader writes the header of a file. What is copied belongs to the container's
// user: the owners here mean nothing there.
func (c *copier) packHeader(w *tar.Writer, info fs.FileInfo, name, target string) error {
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name = name
	if info.IsDir() {
		h.Name += "/"
	}
	h.Mode &= 0o777
	h.Uid, h.Gid, h.Uname, h.Gname, h.Format = 0, 0, "", "", tar.FormatPAX
	c.files++
	return w.WriteHeader(h)
}

// repack copies a tar of any format as one that the server accepts.
func (c *copier) repack(w *tar.Writer, from *tar.Reader) error {
	for {
		h, err := from.Next()
		if err == io.EOF { //nolint:errorlint // Next returns it itself
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the tar: %w", err)
		}
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeDir, tar.TypeSymlink:
		default:
			c.skipped++
			continue
		}
		c.files++
		h.Uid, h.Gid, h.Uname, h.Gname, h.Format = 0, 0, "", "", tar.FormatPAX
		h.Mode &= 0o777
		h.PAXRecords, h.Devmajor, h.Devminor = nil, 0, 0
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(w, counted{from, &c.bytes}); err != nil {
			return err
		}
	}
}
