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
	// registryTimeout bounds a registry's description of an image.
	registryTimeout = 20 * time.Second
	// imageCacheTTL is how long a description is valid, because a tag may move.
	// A pool that is being filled sends one request.
	imageCacheTTL = time.Minute
	// maxCachedImages bounds the number of cached descriptions.
	maxCachedImages = 256
)

// imageConfig is the part of an image that decides how its containers run.
type imageConfig struct {
	ref          string   // what the nodes pull
	args         []string // the whole argv
	user         string
	fromRegistry bool // the registry described the image
	stopSignal   string
}

// images caches the registries' descriptions.
type images struct {
	inFlight singleflight.Group

	// mu guards known. It is not held during I/O.
	mu    sync.Mutex
	cache map[string]cachedImage
}

type cachedImage struct {
	imageConfig
	fetchedAt time.Time
}

// resolve decides what a container runs and as which user. The cluster does not
// describe images, so what the workload leaves open comes from the image's
// registry. Its description names exactly the image that then runs. With command
// and user in the workload, no registry is requested.
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

// fetch returns the registry's description of an image, possibly from the cache.
// Concurrent callers send one request, which continues when the first of them
// gives up.
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
		return imageConfig{}, fmt.Errorf("query the registry of %s: %w", ref, context.Cause(ctx))
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

// fetchConfig queries the registry, with the credentials of the Docker
// configuration of Hostler's user, if there are any.
func fetchConfig(ctx context.Context, image string) (imageConfig, error) {
	ref, err := name.ParseReference(image)
	if err != nil {
		return imageConfig{}, fmt.Errorf("%w: %w", runtime.ErrImageUnavailable, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, registryTimeout, fmt.Errorf("no response in %s", registryTimeout))
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

// registryError preserves the registry's error text. The nodes may have the image
// although the registry is unavailable, so the error has a hint.
func registryError(ctx context.Context, image string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if refused, ok := errors.AsType[*transport.Error](err); ok && refused.StatusCode == http.StatusNotFound {
		return fmt.Errorf("%w: %w", runtime.ErrImageUnavailable, err)
	}
	return fmt.Errorf("%w: the command and user of %s are unknown, because its registry could not be queried: %w; "+
		"set command and user in the workload, or give Hostler access to the registry", runtime.ErrImageUnavailable, image, err)
}
