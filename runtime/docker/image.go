package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/pkg/jsonmessage"

	"github.com/hostler/hostler/runtime"
)

// pullTimeout bounds a pull that no caller waits for any more.
const pullTimeout = 30 * time.Minute

// imageConfig is the part of an image that decides how its containers run.
type imageConfig struct {
	id         string
	args       []string // entrypoint and command
	user       string
	workdir    string
	stopSignal string
}

// resolve inspects an image and pulls it if it is missing. Concurrent callers
// for the same image pull it once.
func (r *Runtime) resolve(ctx context.Context, ref string) (imageConfig, error) {
	if ref == "" {
		return imageConfig{}, fmt.Errorf("%w: the workload names none", runtime.ErrImageUnavailable)
	}
	found, err := r.inspectImage(ctx, ref)
	if cerrdefs.IsInvalidArgument(err) {
		return found, fmt.Errorf("%w: %w", runtime.ErrImageUnavailable, err)
	}
	if !cerrdefs.IsNotFound(err) {
		return found, r.apiError(ctx, err)
	}
	if err := r.pull(ctx, ref); err != nil {
		return imageConfig{}, err
	}
	found, err = r.inspectImage(ctx, ref)
	if cerrdefs.IsNotFound(err) {
		return found, fmt.Errorf("%w: %s was pulled and removed again", runtime.ErrImageUnavailable, ref)
	}
	return found, r.apiError(ctx, err)
}

func (r *Runtime) inspectImage(ctx context.Context, ref string) (imageConfig, error) {
	img, err := r.api.ImageInspect(ctx, ref)
	if err != nil {
		return imageConfig{}, err
	}
	found := imageConfig{id: img.ID}
	if c := img.Config; c != nil {
		found.args = append(append(found.args, c.Entrypoint...), c.Cmd...)
		found.user, found.workdir, found.stopSignal = c.User, c.WorkingDir, c.StopSignal
	}
	return found, nil
}

// pull waits for one pull of the image. The pull continues for the other callers
// when the first one gives up.
func (r *Runtime) pull(ctx context.Context, ref string) error {
	done := r.pulls.DoChan(ref, func() (any, error) {
		return nil, r.pullOnce(context.WithoutCancel(ctx), ref)
	})
	select {
	case result := <-done:
		return result.Err
	case <-ctx.Done():
		return fmt.Errorf("pull %s: %w", ref, context.Cause(ctx))
	}
}

// pullOnce pulls, and reads the engine's progress stream to its end, because a
// registry's rejection is reported there.
func (r *Runtime) pullOnce(ctx context.Context, ref string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pullTimeout,
		fmt.Errorf("%w: pulling %s took longer than %s", runtime.ErrImageUnavailable, ref, pullTimeout))
	defer cancel()
	progress, err := r.api.ImagePull(ctx, ref, image.PullOptions{})
	if err != nil {
		return r.pullError(ctx, ref, err)
	}
	defer progress.Close()
	for lines := json.NewDecoder(progress); ; {
		var line jsonmessage.JSONMessage
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("pull %s: %w", ref, r.apiError(ctx, err))
		}
		if line.Error != nil {
			return r.pullError(ctx, ref, line.Error)
		}
	}
}

// pullError preserves the registry's error text. That is in parentheses, so that
// the name of the image stays in the cause that people read.
func (r *Runtime) pullError(ctx context.Context, ref string, err error) error {
	if ctx.Err() != nil || isUnreachable(err) {
		return fmt.Errorf("pull %s: %w", ref, r.apiError(ctx, err))
	}
	return fmt.Errorf("%w: %s is not on the engine and cannot be pulled (%w)", runtime.ErrImageUnavailable, ref, err)
}
