package pool

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// Catalog returns the parsed workload of a revision. A revision never changes,
// so each is read and parsed once, until its workload is applied again. The
// current revision is always read from the store.
type Catalog struct {
	store catalogStore

	mu         sync.Mutex // guards the fields below
	parsed     map[[2]string]parsedEntry
	size       int // of the sources of parsed
	revisions  map[[2]string]catalogEntry
	generation int // number of calls of Invalidate
}

// parsedEntry is a workload, and the bytes of its source.
type parsedEntry struct {
	w    *workload.Workload
	size int
}

// catalogEntry is the workload and the record of one revision.
type catalogEntry struct {
	w *workload.Workload
	r Record
}

// catalogStore is what a Catalog needs from the database.
type catalogStore interface {
	Workloads
	Container(ctx context.Context, id string) (Container, error)
}

// NewCatalog returns a catalog of the workloads in store.
func NewCatalog(store catalogStore) *Catalog {
	return &Catalog{store: store, parsed: map[[2]string]parsedEntry{}, revisions: map[[2]string]catalogEntry{}}
}

// Current returns the workload as currently applied, with its record, which has
// the scale of its pool. It returns ErrWorkloadNotFound if there is none.
func (c *Catalog) Current(ctx context.Context, id string) (*workload.Workload, Record, error) {
	r, err := c.store.Workload(ctx, id)
	if err != nil {
		return nil, Record{}, err
	}
	// The source is also parsed again if only its name or pool has changed.
	w, err := c.parse(r, r.Revision+string(r.Source))
	return w, r, err
}

// Revision returns the workload as of that revision. It returns
// ErrWorkloadNotFound if there is none.
func (c *Catalog) Revision(ctx context.Context, id, revision string) (*workload.Workload, Record, error) {
	key := [2]string{id, revision}
	c.mu.Lock()
	cached, ok := c.revisions[key]
	generation := c.generation
	c.mu.Unlock()
	if ok {
		return cached.w, cached.r, nil
	}
	r, err := c.store.Revision(ctx, id, revision)
	if err != nil {
		return nil, Record{}, fmt.Errorf("revision %s of workload %s: %w", revision, id, err)
	}
	w, err := c.parse(r, r.Revision+string(r.Source))
	if err != nil {
		return nil, Record{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.generation != generation {
		return w, r, nil // it may have been read before Invalidate was called
	}
	if len(c.revisions) >= maxCached {
		clear(c.revisions)
	}
	c.revisions[key] = catalogEntry{w, r}
	return w, r, nil
}

// File returns the workload of a file that was applied, by workload.FileID. It
// returns ErrWorkloadNotFound if there is none.
func (c *Catalog) File(ctx context.Context, id, file string) (*workload.Workload, error) {
	source, err := c.store.File(ctx, id, file)
	if err != nil {
		return nil, fmt.Errorf("file %s of workload %s: %w", file, id, err)
	}
	return c.parse(Record{ID: id, Source: source}, file)
}

// Invalidate removes what the caches have of a workload. It is called when
// the workload was applied, by this server or another: the directory of its
// seeds, which is not part of a revision, may have changed.
func (c *Catalog) Invalidate(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation++
	maps.DeleteFunc(c.revisions, func(key [2]string, _ catalogEntry) bool { return key[0] == id })
	for key, entry := range c.parsed {
		if key[0] == id {
			delete(c.parsed, key)
			c.size -= entry.size
		}
	}
}

// InvalidateAll removes all revisions from the cache.
func (c *Catalog) InvalidateAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation++
	clear(c.revisions)
}

// errUnreadable is returned for a file that was applied and is not valid any more.
var errUnreadable = errors.New("read the stored source")

// maxCached limits what is cached in workloads, and maxCachedSize in bytes of their
// sources, of which a workload needs a few times as much. A full cache is cleared.
const (
	maxCached     = 1024
	maxCachedSize = 16 << 20
)

func (c *Catalog) parse(r Record, version string) (*workload.Workload, error) {
	sum := sha256.Sum256([]byte(version))
	key := [2]string{r.ID, string(sum[:])}
	c.mu.Lock()
	cached, ok := c.parsed[key]
	c.mu.Unlock()
	if ok {
		return cached.w, nil
	}
	w, err := workload.Parse(r.Source, r.ID)
	if err != nil {
		return nil, fmt.Errorf("%w of workload %s: %w", errUnreadable, r.ID, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.parsed) >= maxCached || c.size+len(r.Source) > maxCachedSize {
		clear(c.parsed)
		clear(c.revisions) // they share the workloads
		c.size = 0
	}
	if previous, ok := c.parsed[key]; ok {
		return previous.w, nil // it was parsed at the same time
	}
	c.parsed[key] = parsedEntry{w, len(r.Source)}
	c.size += len(r.Source)
	return w, nil
}

// ImageHooks returns the hooks of a container's image, as they were listed when it
// was created; none while it is not on record.
func (c *Catalog) ImageHooks(ctx context.Context, container string) ([]runtime.ImageHook, error) {
	k, err := c.store.Container(ctx, container)
	if errors.Is(err, ErrContainerNotFound) {
		return nil, nil
	}
	return k.ImageHooks, err
}

// Node returns the node that a container runs on, or has run on, or "" while it is
// not on record.
func (c *Catalog) Node(ctx context.Context, container string) (string, error) {
	k, err := c.store.Container(ctx, container)
	if errors.Is(err, ErrContainerNotFound) {
		return "", nil
	}
	return k.Node, err
}
