package fake

import (
	"context"
	"io"
	"io/fs"

	"github.com/hostler/hostler/runtime"
)

// StatFile implements runtime.TenantFiles.StatFile.
func (rt *Runtime) StatFile(context.Context, string, runtime.FileRef) (runtime.FileInfo, error) {
	return runtime.FileInfo{}, runtime.ErrUnsupported
}

// ListFiles implements runtime.TenantFiles.ListFiles.
func (rt *Runtime) ListFiles(context.Context, string, runtime.FileRef, string, int) ([]runtime.FileInfo, error) {
	return nil, runtime.ErrUnsupported
}

// ReadFile implements runtime.TenantFiles.ReadFile.
func (rt *Runtime) ReadFile(context.Context, string, runtime.FileRef, int64, int64) (runtime.FileInfo, io.ReadCloser, error) {
	return runtime.FileInfo{}, nil, runtime.ErrUnsupported
}

// WriteFile implements runtime.TenantFiles.WriteFile.
func (rt *Runtime) WriteFile(context.Context, string, runtime.FileRef, fs.FileMode, io.Reader) (runtime.FileInfo, error) {
	return runtime.FileInfo{}, runtime.ErrUnsupported
}

// RemoveFile implements runtime.TenantFiles.RemoveFile.
func (rt *Runtime) RemoveFile(context.Context, string, runtime.FileRef, bool) error {
	return runtime.ErrUnsupported
}

// ReadTree implements runtime.TenantFiles.ReadTree.
func (rt *Runtime) ReadTree(context.Context, string, runtime.FileRef) (io.ReadCloser, error) {
	return nil, runtime.ErrUnsupported
}

// WriteTree implements runtime.TenantFiles.WriteTree.
func (rt *Runtime) WriteTree(context.Context, string, runtime.FileRef, io.Reader) error {
	return runtime.ErrUnsupported
}
