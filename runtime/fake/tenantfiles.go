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

	"github.com/hostler/hostler/runtime"
)

// doFile makes a call about a file with the rights of the container's user. The
// action holds the container's lock.
func (rt *Runtime) doFile(ctx context.Context, op, id string, ref runtime.FileRef, action func(*fileAccess) error) error {
	call := Call{Op: op, ID: id, Args: []string{ref.Path}, Fence: ref.Fence}
	return rt.do(ctx, call, func(c *container) error { return c.access(ref, action) })
}

// access performs an action on a file.
func (c *container) access(ref runtime.FileRef, action func(*fileAccess) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkTenant(ref.Fence); err != nil {
		return err
	}
	f := &fileAccess{ref: ref, c: c, user: &c.user}
	err := checkFilePath(ref.Path)
	if err == nil {
		err = action(f)
	}
	return f.convert(err)
}

// StatFile describes a file.
func (rt *Runtime) StatFile(ctx context.Context, id string, ref runtime.FileRef) (runtime.FileInfo, error) {
	var info runtime.FileInfo
	err := rt.doFile(ctx, "stat_file", id, ref, func(f *fileAccess) error {
		p, err := f.findExisting(ref.Path, false)
		if err == nil {
			info = p.node.info(path.Base(path.Clean(ref.Path)))
		}
		return err
	})
	return info, err
}

// ListFiles describes the entries of a directory.
func (rt *Runtime) ListFiles(ctx context.Context, id string, ref runtime.FileRef, after string, limit int) ([]runtime.FileInfo, error) {
	if limit < 1 || limit > runtime.MaxFileList {
		limit = runtime.MaxFileList
	}
	var all []runtime.FileInfo
	err := rt.doFile(ctx, "list_files", id, ref, func(f *fileAccess) error {
		p, err := f.findExisting(ref.Path, true)
		switch {
		case err != nil:
			return err
		case !p.node.mode.IsDir():
			return syscall.ENOTDIR
		case !isAllowed(p.node, f.user, mayRead|mayExec):
			return syscall.EACCES
		}
		for _, name := range slices.Sorted(maps.Keys(p.node.children)) {
			if name > after && len(all) < limit {
				all = append(all, p.node.children[name].info(name))
			}
		}
		return nil
	})
	return all, err
}

// ReadFile opens a file as it is at the time of the call.
func (rt *Runtime) ReadFile(ctx context.Context, id string, ref runtime.FileRef, offset, length int64) (runtime.FileInfo, io.ReadCloser, error) {
	var info runtime.FileInfo
	var data []byte
	err := rt.doFile(ctx, "read_file", id, ref, func(f *fileAccess) error {
		p, err := f.findExisting(ref.Path, true)
		if err != nil {
			return err
		}
		if p.node.mode.IsDir() {
			return syscall.EISDIR
		}
		if err := f.checkReadable(p.node); err != nil {
			return err
		}
		content := p.node.content()
		size := int64(len(content))
		if offset < 0 || offset > size {
			return syscall.EINVAL
		}
		if length < 0 || length > size-offset {
			length = size - offset
		}
		info, data = p.node.info(path.Base(path.Clean(ref.Path))), content[offset:offset+length]
		return nil
	})
	if err != nil {
		return runtime.FileInfo{}, nil, err
	}
	return info, io.NopCloser(bytes.NewReader(data)), nil
}

// WriteFile replaces a file when all of its content has been read.
func (rt *Runtime) WriteFile(ctx context.Context, id string, ref runtime.FileRef, mode fs.FileMode, content io.Reader) (runtime.FileInfo, error) {
	var info runtime.FileInfo
	call := Call{Op: "write_file", ID: id, Args: []string{ref.Path}, Fence: ref.Fence}
	err := rt.do(ctx, call, func(c *container) error {
		if err := c.access(ref, func(f *fileAccess) error { return f.checkTarget() }); err != nil {
			return err
		}
		data, err := io.ReadAll(content)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		return c.access(ref, func(f *fileAccess) error {
			n := &node{mode: mode.Perm(), data: data}
			if err := f.replace(n); err != nil {
				return err
			}
			info = n.info(path.Base(path.Clean(ref.Path)))
			return nil
		})
	})
	return info, err
}

// RemoveFile removes a file or a directory.
func (rt *Runtime) RemoveFile(ctx context.Context, id string, ref runtime.FileRef, recursive bool) error {
	return rt.doFile(ctx, "remove_file", id, ref, func(f *fileAccess) error {
		p, err := f.findExisting(ref.Path, false)
		if err != nil {
			return err
		}
		if p.parent == nil {
			return syscall.EINVAL // the root
		}
		if len(p.node.children) > 0 && !recursive {
			return syscall.ENOTEMPTY
		}
		return f.c.files.remove(p.path, f.user)
	})
}

// ReadTree packs a directory or a file.
func (rt *Runtime) ReadTree(ctx context.Context, id string, ref runtime.FileRef) (io.ReadCloser, error) {
	var archive bytes.Buffer
	err := rt.doFile(ctx, "read_tree", id, ref, func(f *fileAccess) error {
		p, err := f.findExisting(ref.Path, true)
		if err == nil {
			err = f.checkReadable(p.node)
		}
		if err != nil {
			return err
		}
		w := tar.NewWriter(&archive)
		if p.node.mode.IsDir() {
			err = pack(w, p.node, "")
		} else {
			err = packNode(w, p.node, path.Base(path.Clean(ref.Path)))
		}
		if err != nil {
			return err
		}
		return w.Close()
	})
	if err != nil {
		return nil, err
	}
	return io.NopCloser(&archive), nil
}

// WriteTree unpacks an archive, entry by entry.
func (rt *Runtime) WriteTree(ctx context.Context, id string, ref runtime.FileRef, archive io.Reader) error {
	call := Call{Op: "write_tree", ID: id, Args: []string{ref.Path}, Fence: ref.Fence}
	return rt.do(ctx, call, func(c *container) error {
		err := c.access(ref, func(f *fileAccess) error {
			_, err := f.ensureDir(ref.Path)
			return err
		})
		if err != nil {
			return err
		}
		return eachEntry(ctx, archive, func(h *tar.Header, content io.Reader) error { return c.unpackTenant(ref, h, content) })
	})
}

// unpackTenant creates what one entry describes, as the container's user.
func (c *container) unpackTenant(ref runtime.FileRef, h *tar.Header, content io.Reader) error {
	n, err := newEntry(h, content, c.user)
	if n == nil || err != nil {
		return err
	}
	return c.access(ref, func(f *fileAccess) error {
		p, err := f.findExisting(ref.Path, true)
		if err == nil {
			err = c.files.unpack(p, path.Clean(h.Name), n, f.user)
		}
		return badEntry(err, h.Name)
	})
}

// checkFilePath returns an error for a path that no file can have.
func checkFilePath(name string) error {
	const maxPath, maxName = 4095, 255
	if !path.IsAbs(name) || strings.ContainsRune(name, 0) || len(name) > maxPath {
		return syscall.EINVAL
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > maxName {
			return syscall.ENAMETOOLONG
		}
	}
	return nil
}

// info describes a file.
func (n *node) info(name string) runtime.FileInfo {
	info := runtime.FileInfo{
		Name: name, Type: runtime.TypeFile, Size: n.size(), Mode: n.mode.Perm(),
		Modified: n.modified, Target: n.target, UID: n.uid, GID: n.gid,
	}
	if n.mode.IsDir() {
		info.Type = runtime.TypeDirectory
	}
	if n.mode&fs.ModeSymlink != 0 {
		info.Type, info.Size = runtime.TypeLink, int64(len(n.target))
	}
	return info
}

// fileReasons are the reasons of a tree's errors.
var fileReasons = []struct {
	err    error
	reason runtime.FileReason
}{
	{errOutside, runtime.FileOutside},
	{syscall.ENOENT, runtime.FileNotFound},
	{syscall.EACCES, runtime.FileDenied},
	{syscall.EPERM, runtime.FileDenied},
	{syscall.EISDIR, runtime.FileNotRegular},
	{syscall.ENOTDIR, runtime.FileNotDir},
	{syscall.EEXIST, runtime.FileNotDir},
	{syscall.ENOTEMPTY, runtime.FileNotEmpty},
	{syscall.EINVAL, runtime.FileInvalid},
	{syscall.ENAMETOOLONG, runtime.FileInvalid},
	{syscall.ELOOP, runtime.FileInvalid},
	{syscall.EROFS, runtime.FileReadOnly},
	{syscall.EBUSY, runtime.FileInvalid},
}

// convert returns the contract's error for one of the tree.
func (f *fileAccess) convert(err error) error {
	if errors.Is(err, runtime.ErrBadArchive) {
		return err
	}
	for _, r := range fileReasons {
		if errors.Is(err, r.err) {
			return &runtime.FileError{Reason: r.reason, Path: f.ref.Path, Detail: r.err.Error()}
		}
	}
	if err != nil {
		return fmt.Errorf("file %s: %w", f.ref.Path, err)
	}
	return nil
}
