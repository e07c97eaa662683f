package backend

import (
	"context"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// The files of tenants are worked on by a program in the container, which is an
// internal command and a process of the container's user. So a link leads nowhere
// that the user could not go, and a tenant who controls the program gains nothing.
// It can make it print anything: everything is bounded and checked here.

// How long operations without content may take, and how long the program may be
// silent when output is due.
const (
	lookTimeout   = 2 * time.Minute
	removeTimeout = 15 * time.Minute
	fileSilence   = time.Minute
)

// StatFile implements runtime.TenantFiles.StatFile.
func (c Containers) StatFile(ctx context.Context, id string, ref runtime.FileRef) (runtime.FileInfo, error) {
	var found []runtime.FileInfo
	err := c.files(id).retry(ctx, fileCall{op: shim.FileStat, ref: ref, timeout: lookTimeout}, func(f *fileCommand) (err error) {
		found, err = f.entries(1)
		return err
	})
	if err == nil && len(found) == 0 {
		err = errForged
	}
	if err != nil {
		return runtime.FileInfo{}, wrap(asFileError(ref, err), "describe a file of the container %s", id)
	}
	found[0].Name = path.Base(path.Clean(ref.Path))
	return found[0], nil
}

// ListFiles implements runtime.TenantFiles.ListFiles.
func (c Containers) ListFiles(ctx context.Context, id string, ref runtime.FileRef, after string, limit int) ([]runtime.FileInfo, error) {
	if limit < 1 || limit > runtime.MaxFileList {
		limit = runtime.MaxFileList
	}
	call := fileCall{op: shim.FileList, ref: ref, timeout: lookTimeout}
	call.request.After, call.request.Limit = []byte(after[:min(len(after), shim.MaxFilePath)]), limit
	var found []runtime.FileInfo
	err := c.files(id).retry(ctx, call, func(f *fileCommand) (err error) {
		found, err = f.entries(limit)
		return err
	})
	if err == nil {
		err = checkOrder(after, found)
	}
	if err != nil {
		return nil, wrap(asFileError(ref, err), "list files of the container %s", id)
	}
	return found, nil
}

// checkOrder checks that a list continues after a name, in order: a caller who asks
// for more after its last name reaches the end.
func checkOrder(after string, found []runtime.FileInfo) error {
	for i, info := range found {
		if !isFileName(info.Name) || info.Name <= after && (i > 0 || after != "") {
			return errForged
		}
		after = info.Name
	}
	return nil
}

// ReadFile implements runtime.TenantFiles.ReadFile.
func (c Containers) ReadFile(ctx context.Context, id string, ref runtime.FileRef, offset, length int64) (runtime.FileInfo, io.ReadCloser, error) {
	call := fileCall{op: shim.FileRead, ref: ref}
	call.request.Offset, call.request.Length = offset, length
	f, err := c.files(id).open(ctx, call)
	if err == nil {
		info, content, readErr := f.readRange(offset, length)
		if readErr == nil {
			info.Name = path.Base(path.Clean(ref.Path))
			return info, content, nil
		}
		f.close()
		err = readErr
	}
	return runtime.FileInfo{}, nil, wrap(asFileError(ref, err), "read a file of the container %s", id)
}

// WriteFile implements runtime.TenantFiles.WriteFile.
func (c Containers) WriteFile(ctx context.Context, id string, ref runtime.FileRef, mode fs.FileMode, content io.Reader) (runtime.FileInfo, error) {
	call := fileCall{op: shim.FileWrite, ref: ref, input: true}
	call.request.Mode = uint32(mode.Perm())
	var found []runtime.FileInfo
	err := c.files(id).send(ctx, call, content, func(f *fileCommand) (err error) {
		found, err = f.entries(1)
		return err
	})
	if err == nil && len(found) == 0 {
		err = errForged
	}
	if err != nil {
		return runtime.FileInfo{}, wrap(asFileError(ref, err), "write a file of the container %s", id)
	}
	found[0].Name = path.Base(path.Clean(ref.Path))
	return found[0], nil
}

// RemoveFile implements runtime.TenantFiles.RemoveFile.
func (c Containers) RemoveFile(ctx context.Context, id string, ref runtime.FileRef, recursive bool) error {
	call := fileCall{op: shim.FileRemove, ref: ref, timeout: removeTimeout}
	call.request.Recursive = recursive
	f, err := c.files(id).open(ctx, call)
	if err == nil {
		_, err = f.entries(0)
		f.close()
	}
	return wrap(asFileError(ref, err), "remove a file of the container %s", id)
}

// ReadTree implements runtime.TenantFiles.ReadTree.
func (c Containers) ReadTree(ctx context.Context, id string, ref runtime.FileRef) (io.ReadCloser, error) {
	f, err := c.files(id).open(ctx, fileCall{op: shim.FileTar, ref: ref})
	if err == nil {
		archive := &fileContent{command: f, left: -1}
		if err = archive.begin(); err == nil {
			return archive, nil
		}
		f.close()
	}
	return nil, wrap(asFileError(ref, err), "pack files of the container %s", id)
}

// WriteTree implements runtime.TenantFiles.WriteTree.
func (c Containers) WriteTree(ctx context.Context, id string, ref runtime.FileRef, archive io.Reader) error {
	err := c.files(id).send(ctx, fileCall{op: shim.FileUntar, ref: ref, input: true}, archive, func(f *fileCommand) error {
		_, err := f.entries(0)
		return err
	})
	return wrap(asFileError(ref, err), "unpack files in the container %s", id)
}

// files returns the program for the files of a container.
func (c Containers) files(id string) filePrograms {
	p := filePrograms{commands: c, id: id, program: shim.AskBinaryPath, silence: c.fileSilence}
	if c.programs != nil {
		p.commands = c.programs
	}
	if c.options.FileProgram != nil {
		p.program, p.root = c.options.FileProgram(id)
	}
	return p
}
