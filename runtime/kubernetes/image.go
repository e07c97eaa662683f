package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	goruntime "runtime"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/sync/singleflight"

	"github.com/hostler/hostler/runtime"
)

const (
	// registryTimeout is how long a registry may take to describe an image.
	registryTimeout = 20 * time.Second
	// imageCacheTTL is for how long an answer stands: a tag may move on. A pool
	// that fills up asks once.
	imageCacheTTL = time.Minute
	// maxCachedImages bounds the answers that are remembered.
	maxCachedImages = 256
)

// imageConfig is what of an image decides how its containers run.
type imageConfig struct {
	ref          string   // what the nodes pull
	args         []string // the whole argv
	user         string
	fromRegistry bool // the registry was asked
	stopSignal   string
}

// images remembers what registries said.
type images struct {
	inFlight singleflight.Group

	// mu guards known. It is held for no I/O.
	mu    sync.Mutex
	cache map[string]cachedImage
}

type cachedImage struct {
	imageConfig
	fetchedAt time.Time
}

// resolve settles what a container runs and as whom. The cluster does not tell
// what an image is made of, so what the workload leaves open its registry is
// asked; the answer names the very image that is then run. With command and
// user in the workload nobody is asked.
func (i *images) resolve(ctx context.Context, spec runtime.Spec) (imageConfig, error) {
	if spec.Image == "" {
		return imageConfig{}, fmt.Errorf("%w: the workload names none", runtime.ErrImageUnavailable)
	}
	if len(spec.Command) > 0 && spec.User != "" {
		return imageConfig{ref: spec.Image, args: spec.Command, user: spec.User}, nil
	}
	found, err := i.fetch(ctx, spec.Image)
	if err != nil {
		return found, err
	}
	if len(spec.Command) > 0 {
		found.args = spec.Command
	}
	if spec.User != "" {
		found.user = spec.User
	}
	return found, nil
}

// fetch gives what the image's registry says, now or a moment ago. Many at once
// ask once, and go on asking when the first of them gives up.
func (i *images) fetch(ctx context.Context, ref string) (imageConfig, error) {
	if found, ok := i.cached(ref); ok {
		return found, nil
	}
	answer := i.inFlight.DoChan(ref, func() (any, error) {
		found, err := fetchConfig(context.WithoutCancel(ctx), ref)
		if err == nil {
			i.addToCache(ref, found)
		}
		return found, err
	})
	select {
	case a := <-answer:
		return a.Val.(imageConfig), a.Err
	case <-ctx.Done():
		return imageConfig{}, fmt.Errorf("ask the registry of %s: %w", ref, context.Cause(ctx))
	}
}

func (i *images) cached(ref string) (imageConfig, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	k, ok := i.cache[ref]
	return k.imageConfig, ok && time.Since(k.fetchedAt) < imageCacheTTL
}

func (i *images) addToCache(ref string, found imageConfig) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.cache == nil || len(i.cache) >= maxCachedImages {
		i.cache = make(map[string]cachedImage)
	}
	i.cache[ref] = cachedImage{found, time.Now()}
}

// fetchConfig asks the registry, with the credentials of the Docker configuration
// of whoever runs Hostler, if there are any.
func fetchConfig(ctx context.Context, image string) (imageConfig, error) {
	ref, err := name.ParseReference(image)
	if err != nil {
		return imageConfig{}, fmt.Errorf("%w: %w", runtime.ErrImageUnavailable, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, registryTimeout, fmt.Errorf("no answer in %s", registryTimeout))
	defer cancel()
	found, err := remote.Get(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: goruntime.GOARCH}))
	if err != nil {
		return imageConfig{}, registryError(ctx, image, err)
	}
	img, err := found.Image()
	if err != nil {
		return imageConfig{}, registryError(ctx, image, err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		return imageConfig{}, registryError(ctx, image, err)
	}
	c := imageConfig{
		ref: ref.Context().Digest(found.Digest.String()).String(), user: file.Config.User,
		fromRegistry: true, stopSignal: file.Config.StopSignal,
	}
	c.args = append(append(c.args, file.Config.Entrypoint...), file.Config.Cmd...)
	return c, nil
}

// registryError keeps the registry's words. That it cannot be asked need not
// keep the nodes from having the image: so the remedy is told.
func registryError(ctx context.Context, image string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if refused, ok := errors.AsType[*transport.Error](err); ok && refused.StatusCode == http.StatusNotFound {
		return fmt.Errorf("%w: %w", runtime.ErrImageUnavailable, err)
	}
	return fmt.Errorf("%w: what %s runs, and as whom, is not known, for its registry could not be asked: %w; "+
		"say command and user in the workload, or let Hostler at the registry", runtime.ErrImageUnavailable, image, err)
}
