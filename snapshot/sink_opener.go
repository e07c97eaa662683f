package snapshot

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hostler/hostler/snapshot/statekey"
	"github.com/hostler/hostler/workload"
)

// PathPolicy has the directories that the operator allows workloads to name.
type PathPolicy struct {
	// State is the directory of sinks of type file that name none; "" for none.
	State string
	// Dirs are the directories that sinks of type file may use, or be below.
	// They must exist; subdirectories are created.
	Dirs []string
	// Credentials is the directory of credentials files; "" for none.
	Credentials string
}

// ErrPathNotAllowed indicates that the operator does not allow a sink's
// directory.
var ErrPathNotAllowed = errors.New("the server does not allow this directory for tenants' state")

// Sinks opens the sinks of workloads, and each bucket once. It is safe for
// concurrent use.
type Sinks struct {
	// Keys encrypt the state of all of them; nil for no encryption. It is set
	// before the first Open.
	Keys *statekey.Keys
	// OwnDirectory has all state kept in PathPolicy.State, whatever sinks the
	// workloads name. It is set before the first Open.
	OwnDirectory bool

	policy     PathPolicy
	openBucket OpenBucket
	quota      *memoryQuota // of the uploads of all of them
	wide       wideDownloads

	// mu guards open.
	mu   sync.Mutex
	open map[bucketKey]cachedBucket
}

// bucketKey identifies a bucket.
type bucketKey struct {
	sink    workload.Sink
	maxSize int64
}

// cachedBucket is a bucket and the secret that it was opened with. With a
// changed secret it is opened again, and the old one is closed after its last
// use.
type cachedBucket struct {
	bucket Bucket
	secret [sha256.Size]byte
}

// OpenBucket opens the bucket of a sink that is not a directory, with the
// sink's secret, "" for none. It is called by several goroutines at once.
type OpenBucket func(ctx context.Context, sync *workload.Sync, secret string) (Bucket, error)

// NewSinks returns the sinks of a server. With open nil there are only
// directories.
func NewSinks(policy PathPolicy, open OpenBucket) *Sinks {
	return &Sinks{policy: policy, openBucket: open, quota: newMemoryQuota(uploadMemory), wide: newWideDownloads(), open: map[bucketKey]cachedBucket{}}
}

// Open returns the sink of a workload's sync. It checks what it can without
// contacting the provider: that there are credentials, and that a directory is
// allowed and can be created.
func (s *Sinks) Open(ctx context.Context, sync *workload.Sync) (*Sink, error) {
	bucket, err := s.bucket(ctx, sync)
	if err != nil {
		return nil, fmt.Errorf("open the %s sink: %w", sync.Sink.Type, err)
	}
	return &Sink{bucket: bucket, sync: sync, quota: s.quota, keys: packKeysOf(s.Keys), wide: s.wide}, nil
}

// Close closes all buckets.
func (s *Sinks) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for key, o := range s.open {
		if c, ok := o.bucket.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
		delete(s.open, key)
	}
	return errors.Join(errs...)
}

func (s *Sinks) bucket(ctx context.Context, sync *workload.Sync) (Bucket, error) {
	if s.OwnDirectory {
		own := *sync
		own.Sink = workload.Sink{Type: workload.SinkFile}
		sync = &own
	}
	secret, err := s.policy.credentials(sync.Sink.Credentials)
	if err != nil {
		return nil, err
	}
	key := bucketKey{sink: sync.Sink, maxSize: sync.MaxSize}
	key.sink.Prefix = "" // prefixes share a bucket
	now := cachedBucket{secret: sha256.Sum256([]byte(secret))}
	s.mu.Lock()
	known := s.open[key]
	s.mu.Unlock()
	if known.bucket != nil && known.secret == now.secret {
		return known.bucket, nil
	}
	// Not under the lock: a provider's chain of credentials may use the
	// network.
	if now.bucket, err = s.openNew(ctx, sync, secret); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.open[key]; first.bucket != nil && first.secret == now.secret {
		return first.bucket, nil
	}
	s.open[key] = now
	return now.bucket, nil
}

// openNew opens the bucket of a sink.
func (s *Sinks) openNew(ctx context.Context, sync *workload.Sync, secret string) (Bucket, error) {
	if sync.Sink.Type == workload.SinkFile {
		dir, err := s.policy.resolveDir(sync.Sink.Path)
		if err != nil {
			return nil, err
		}
		return openDir(dir)
	}
	if s.openBucket == nil {
		return nil, fmt.Errorf("this program opens directories only")
	}
	return s.openBucket(ctx, sync, secret)
}

// resolveDir returns the directory of a sink. It resolves links, so that they
// cannot lead outside of the allowed directories.
func (p PathPolicy) resolveDir(name string) (string, error) {
	if name == "" {
		if p.State == "" {
			return "", fmt.Errorf("%w: the sink names none, and the server has no state directory", ErrPathNotAllowed)
		}
		return p.State, nil
	}
	target, err := resolveLinks(name)
	if err != nil {
		return "", err
	}
	for _, allowed := range append(slices.Clone(p.Dirs), p.State) {
		dir, err := resolveLinks(allowed)
		if err != nil || dir == "" || target != dir && !strings.HasPrefix(target, strings.TrimSuffix(dir, "/")+"/") {
			continue
		}
		// Creating the directory would give tenants an empty state when its
		// filesystem is not mounted. An error shows the operator that it is
		// missing.
		if _, err := os.Stat(dir); err != nil && allowed != p.State {
			return "", fmt.Errorf("the allowed directory must exist: %w", err)
		}
		return target, nil
	}
	return "", fmt.Errorf("%w: %s", ErrPathNotAllowed, name)
}

// resolveLinks resolves the links of the part of a path that exists.
func resolveLinks(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	target, err := filepath.EvalSymlinks(name)
	if err == nil {
		return target, nil
	}
	dir := filepath.Dir(name)
	if dir == name {
		return "", err
	}
	above, aboveErr := resolveLinks(dir)
	if aboveErr != nil {
		return "", err
	}
	return filepath.Join(above, filepath.Base(name)), nil
}
