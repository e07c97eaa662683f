package process

import (
	"context"
	"fmt"
	"io"
	"time"
)

// CopyIn is runtime.Files.CopyIn.
func (r *Runtime) CopyIn(ctx context.Context, id, dir string, tar io.Reader) error {
	if _, err := r.lookup(id); err != nil {
		return fmt.Errorf("copy files: %w", err)
	}
	if err := r.sessions.Get(id).CopyIn(ctx, dir, tar); err != nil {
		return fmt.Errorf("copy files into %s of %s: %w", dir, id, err)
	}
	return nil
}

// CopyOut is runtime.Files.CopyOut.
func (r *Runtime) CopyOut(ctx context.Context, id, dir string) (io.ReadCloser, error) {
	if _, err := r.lookup(id); err != nil {
		return nil, fmt.Errorf("copy files: %w", err)
	}
	files, err := r.sessions.Get(id).CopyOut(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("copy files from %s of %s: %w", dir, id, err)
	}
	return files, nil
}

// LastModified is runtime.Files.LastModified.
func (r *Runtime) LastModified(ctx context.Context, id string, dirs []string) (time.Time, error) {
	if _, err := r.lookup(id); err != nil {
		return time.Time{}, fmt.Errorf("find the last change: %w", err)
	}
	at, err := r.sessions.Get(id).LastModified(ctx, dirs)
	if err != nil {
		return at, fmt.Errorf("container %s: %w", id, err)
	}
	return at, nil
}
