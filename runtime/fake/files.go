package fake

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hostler/hostler/runtime"
)

// CopyIn unpacks an archive, entry by entry.
func (rt *Runtime) CopyIn(ctx context.Context, id, dir string, fence int64, archive io.Reader) error {
	call := Call{Op: "put", ID: id, Args: []string{dir}, Fence: fence}
	return rt.do(ctx, call, func(c *container) error {
		if _, err := c.lookupDir(dir); err != nil {
			return err
		}
		if err := c.admitCopy(fence); err != nil {
			return err
		}
		return eachEntry(ctx, archive, func(h *tar.Header, content io.Reader) error { return c.unpack(dir, h, content) })
	})
}

// eachEntry calls unpack for each entry of an archive, until ctx ends.
func eachEntry(ctx context.Context, archive io.Reader, unpack func(h *tar.Header, content io.Reader) error) error {
	entries := tar.NewReader(archive)
	for {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			err = unpack(h, entries)
		}
		if err != nil {
			return archiveError(err)
		}
	}
}

// archiveError distinguishes an error in an archive from an error of the reader
// that provides it.
func archiveError(err error) error {
	for _, kind := range []error{tar.ErrHeader, io.ErrUnexpectedEOF, tar.ErrInsecurePath} {
		if errors.Is(err, kind) {
			return fmt.Errorf("%w: %w", runtime.ErrBadArchive, err)
		}
	}
	return err
}

// lookupDir returns a directory of a container that runs.
func (c *container) lookupDir(dir string) (location, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != runtime.Running {
		return location{}, runtime.ErrNotRunning
	}
	p, err := c.files.lookupExisting(dir, true, nil)
	if err == nil && !p.node.mode.IsDir() {
		err = &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return p, fmt.Errorf("%w: %w", runtime.ErrFileNotFound, err)
	}
	return p, nil
}

// entryTypes are the supported types of entries.
var entryTypes = map[byte]fs.FileMode{
	tar.TypeReg: 0, tar.TypeDir: fs.ModeDir, tar.TypeSymlink: fs.ModeSymlink,
}

// unpack creates what one entry describes. It belongs to the container's user.
func (c *container) unpack(dir string, h *tar.Header, content io.Reader) error {
	n, err := newEntry(h, content, c.user)
	if n == nil || err != nil {
		return err
	}
	base, err := c.lookupDir(dir)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return badEntry(c.files.unpack(base, path.Clean(h.Name), n, nil), h.Name)
}

// newEntry returns what one entry describes, for an owner; nil for nothing.
func newEntry(h *tar.Header, content io.Reader, owner User) (*node, error) {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil, nil
	}
	kind, ok := entryTypes[h.Typeflag]
	if !ok || !isBelow(h.Name) {
		return nil, fmt.Errorf("%w: the entry %q", runtime.ErrBadArchive, h.Name)
	}
	if path.Clean(h.Name) == "." {
		return nil, nil // the directory itself does not belong to the archive
	}
	data, err := io.ReadAll(content)
	if err != nil {
		return nil, err
	}
	return &node{
		mode: kind | h.FileInfo().Mode()&(fs.ModePerm|fs.ModeSticky), uid: owner.UID, gid: owner.GID,
		data: data, target: h.Linkname, modified: h.ModTime,
	}, nil
}

// badEntry returns the contract's error for one of unpacking an entry.
func badEntry(err error, name string) error {
	for _, cause := range []error{errEscapes, syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP} {
		if errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", runtime.ErrBadArchive, err)
		}
	}
	if err != nil {
		return fmt.Errorf("the entry %q: %w", name, err)
	}
	return nil
}

// isBelow reports whether a name stays below its directory.
func isBelow(name string) bool {
	return name != "" && !path.IsAbs(name) && !strings.ContainsRune(name, 0) &&
		!slices.Contains(strings.Split(name, "/"), "..")
}

// unpack adds a node below base, with its parent directories. It follows no link
// out of base and writes through none.
func (t *tree) unpack(base location, name string, n *node, u *User) error {
	for i := range name {
		if name[i] != '/' {
			continue
		}
		if err := t.unpackDir(base, name[:i], nil, n, u); err != nil {
			return err
		}
	}
	if n.mode.IsDir() {
		return t.unpackDir(base, name, n, n, u)
	}
	w := walk{stack: []location{base}, contained: true, user: u}
	p, err := w.resolve(name, false)
	if err != nil {
		return err
	}
	return t.addNode(p, n, u)
}

// unpackDir creates a directory from its entry, or changes an existing one. A
// directory without an entry, which only contains another, is created if it is
// missing, with the owner of that.
func (t *tree) unpackDir(base location, name string, entry, other *node, u *User) error {
	w := walk{stack: []location{base}, contained: true, user: u}
	p, err := w.resolve(name, entry == nil)
	if err != nil {
		return err
	}
	exists := p.node != nil && p.node.mode.IsDir()
	if entry == nil && exists {
		return nil
	}
	if entry == nil && p.node != nil {
		return syscall.ENOTDIR
	}
	dir := newDir(0o755, User{UID: other.uid, GID: other.gid})
	if entry != nil {
		dir.mode, dir.modified = entry.mode, entry.modified
	}
	if !exists {
		return t.addNode(p, dir, u)
	}
	err = t.checkWritable(p, u)
	if err == nil && u != nil && u.UID != p.node.uid {
		err = syscall.EPERM
	}
	if err != nil {
		return err
	}
	n := p.node
	n.mode, n.uid, n.gid, n.modified = dir.mode, dir.uid, dir.gid, dir.modified
	t.countChange(p)
	return nil
}

// CopyOut packs a directory. The archive is complete before it is read.
func (rt *Runtime) CopyOut(ctx context.Context, id, dir string) (io.ReadCloser, error) {
	var archive bytes.Buffer
	call := Call{Op: "get", ID: id, Args: []string{dir}}
	err := rt.do(ctx, call, func(c *container) error {
		p, err := c.lookupDir(dir)
		if err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		w := tar.NewWriter(&archive)
		if err := pack(w, p.node, ""); err != nil {
			return err
		}
		return w.Close()
	})
	if err != nil {
		return nil, err
	}
	return io.NopCloser(&archive), nil
}

// pack writes what is below a directory, in order.
func pack(w *tar.Writer, dir *node, prefix string) error {
	for _, name := range slices.Sorted(maps.Keys(dir.children)) {
		n := dir.children[name]
		if err := packNode(w, n, path.Join(prefix, name)); err != nil {
			return fmt.Errorf("pack %s: %w", path.Join(prefix, name), err)
		}
		if err := pack(w, n, path.Join(prefix, name)); err != nil {
			return err
		}
	}
	return nil
}

func packNode(w *tar.Writer, n *node, name string) error {
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: int64(n.mode.Perm()),
		Uid: n.uid, Gid: n.gid, ModTime: n.modified, Size: n.size(),
	}
	if n.mode.IsDir() {
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	}
	if n.mode&fs.ModeSymlink != 0 {
		h.Typeflag, h.Linkname = tar.TypeSymlink, n.target
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(n.content())
	return err
}

// LastModified reads the times of all that is below the directories.
func (rt *Runtime) LastModified(ctx context.Context, id string, dirs []string) (time.Time, error) {
	var last time.Time
	err := rt.do(ctx, Call{Op: "changed", ID: id, Args: dirs}, func(c *container) error {
		for _, dir := range dirs {
			p, err := c.lookupDir(dir)
			if errors.Is(err, runtime.ErrFileNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			c.mu.Lock()
			last = p.node.lastModified(last)
			c.mu.Unlock()
		}
		return nil
	})
	return last, err
}

// lastModified returns the latest time of the node, of all below it, and last.
func (n *node) lastModified(last time.Time) time.Time {
	if n.modified.After(last) {
		last = n.modified
	}
	for _, child := range n.children {
		last = child.lastModified(last)
	}
	return last
}
