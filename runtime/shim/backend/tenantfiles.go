package backend

import (
	"context"
	"io"
	"io/fs"

	"github.com/hostler/hostler/runtime"
)

// StatFile implements runtime.TenantFiles.StatFile.
func (c Containers) StatFile(context.Context, string, runtime.FileRef) (runtime.FileInfo, error) {
	return runtime.FileInfo{}, runtime.ErrUnsupported
}

// ListFiles implements runtime.TenantFiles.ListFiles.
func (c Containers) ListFiles(context.Context, string, runtime.FileRef, string, int) ([]runtime.FileInfo, error) {
	return nil, runtime.ErrUnsupported
}

// ReadFile implements runtime.TenantFiles.ReadFile.
func (c Containers) ReadFile(context.Context, string, runtime.FileRef, int64, int64) (runtime.FileInfo, io.ReadCloser, error) {
	return runtime.FileInfo{}, nil, runtime.ErrUnsupported
}

// WriteFile implements runtime.TenantFiles.WriteFile.
func (c Containers) WriteFile(context.Context, string, runtime.FileRef, fs.FileMode, io.Reader) (runtime.FileInfo, error) {
	return runtime.FileInfo{}, runtime.ErrUnsupported
}

// RemoveFile implements runtime.TenantFiles.RemoveFile.
func (c Containers) RemoveFile(context.Context, string, runtime.FileRef, bool) error {
	return runtime.ErrUnsupported
}

// ReadTree implements runtime.TenantFiles.ReadTree.
func (c Containers) ReadTree(context.Context, string, runtime.FileRef) (io.ReadCloser, error) {
	return nil, runtime.ErrUnsupported
}

// WriteTree implements runtime.TenantFiles.WriteTree.
func (c Containers) WriteTree(context.Context, string, runtime.FileRef, io.Reader) error {
	return runtime.ErrUnsupported
}
