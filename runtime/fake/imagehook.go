package fake

import (
	"context"
	"slices"

	"github.com/hostler/hostler/runtime"
)

// SetImageHooks sets the hooks of every image. Their programs are those of
// AddProgram by their paths. A container that was created before has them, too:
// as if a tenant had replaced the files.
func (rt *Runtime) SetImageHooks(found runtime.ImageHooks) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.imageHooks = found
}

// ImageHooks lists the hooks of the image at points.
func (rt *Runtime) ImageHooks(ctx context.Context, id string, points []string, fence int64) (runtime.ImageHooks, error) {
	found := runtime.ImageHooks{Hooks: []runtime.ImageHook{}, Refused: []string{}}
	err := rt.do(ctx, Call{Op: "image_hooks", ID: id, Args: points, Fence: fence}, func(c *container) error {
		c.mu.Lock()
		running := c.main != nil
		c.mu.Unlock()
		if !running {
			return runtime.ErrNotRunning
		}
		rt.mu.RLock()
		defer rt.mu.RUnlock()
		for _, p := range points {
			for _, h := range rt.imageHooks.Hooks {
				if h.Point == p {
					found.Hooks = append(found.Hooks, h)
				}
			}
		}
		found.Refused = append(found.Refused, rt.imageHooks.Refused...)
		return nil
	})
	return found, err
}

// checkImageHook returns an error for a hook of the image that was changed.
func (rt *Runtime) checkImageHook(p *Proc, digest string) error {
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	isListed := func(h runtime.ImageHook) bool { return h.Path == p.Args[0] && h.Digest == digest }
	if digest != "" && !slices.ContainsFunc(rt.imageHooks.Hooks, isListed) {
		return startError(runtime.StartFailed, "%q is refused: it was changed since the container was created", p.Args[0])
	}
	return nil
}
