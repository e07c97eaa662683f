package process

import (
	"context"
	"fmt"
	"io"
	"time"
)

// PutFiles is runtime.Files.PutFiles.
func (r *Runtime) PutFiles(ctx context.Context, id, dir string, tar io.Reader) error {
	if _, err := r.find(id); err != nil {
		return fmt.Errorf("put files: %w", err)
	}
	if err := r.sessions.With(id).PutFiles(ctx, dir, tar); err != nil {
		return fmt.Errorf("put files into %s of %s: %w", dir, id, err)
	}
	return nil
}

// GetFiles is runtime.Files.GetFiles.
func (r *Runtime) GetFiles(ctx context.Context, id, dir string) (io.ReadCloser, error) {
	if _, err := r.find(id); err != nil {
		return nil, fmt.Errorf("get files: %w", err)
	}
	files, err := r.sessions.With(id).GetFiles(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("get files from %s of %s: %w", dir, id, err)
	}
	return files, nil
}

// Changed is runtime.Files.Changed.
func (r *Runtime) Changed(ctx context.Context, id string, dirs []string) (time.Time, error) {
	if _, err := r.find(id); err != nil {
		return time.Time{}, fmt.Errorf("look for changes: %w", err)
	}
	at, err := r.sessions.With(id).Changed(ctx, dirs)
	if err != nil {
		return at, fmt.Errorf("container %s: %w", id, err)
	}
	return at, nil
}
