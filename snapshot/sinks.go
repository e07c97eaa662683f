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

	"github.com/hostler/hostler/workload"
)

// Places are what the operator allows workloads to name.
type Places struct {
	// State is the folder of sinks of type file that name none; "" for no such.
	State string
	// Folders are those that sinks of type file may name, or lie in. They must
	// be there; what lies in them is made.
	Folders []string
	// Credentials is the folder that files of credentials are in; "" for no
	// such.
	Credentials string
}

// ErrPlace says that the operator does not allow a sink's folder.
var ErrPlace = errors.New("the server does not allow this folder for tenants' state")

// Sinks opens the sinks of workloads, and each bucket once. It may be used by
// many goroutines at once.
type Sinks struct {
	places Places
	turns  *turns // of the uploads of all of them

	// mu guards open.
	mu   sync.Mutex
	open map[bucketKey]opened
}

// bucketKey is what makes a bucket another.
type bucketKey struct {
	sink workload.Sink
	most int64
}

// opened is a bucket and the secret that it was opened with. Under a changed
// one it is opened anew, and the old one closes itself after its last use.
type opened struct {
	bucket Bucket
	secret [sha256.Size]byte
}

// NewSinks makes the sinks of a server.
func NewSinks(places Places) *Sinks {
	return &Sinks{places: places, turns: newTurns(uploadMemory), open: map[bucketKey]opened{}}
}

// For is the sink of a workload's sync. It looks for what it can find out
// without asking the provider: that there are credentials, and that a folder
// is allowed and can be made.
func (s *Sinks) For(ctx context.Context, sync *workload.Sync) (*Sink, error) {
	bucket, err := s.bucket(ctx, sync)
	if err != nil {
		return nil, fmt.Errorf("open the %s sink: %w", sync.Sink.Type, err)
	}
	return &Sink{bucket: bucket, sync: sync, turns: s.turns}, nil
}

// Close closes all buckets.
func (s *Sinks) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var faults []error
	for key, o := range s.open {
		if c, ok := o.bucket.(io.Closer); ok {
			faults = append(faults, c.Close())
		}
		delete(s.open, key)
	}
	return errors.Join(faults...)
}

func (s *Sinks) bucket(ctx context.Context, sync *workload.Sync) (Bucket, error) {
	secret, err := s.places.secret(sync.Sink.Credentials)
	if err != nil {
		return nil, err
	}
	key := bucketKey{sink: sync.Sink, most: sync.MaxSize}
	key.sink.Prefix = "" // prefixes share a bucket
	now := opened{secret: sha256.Sum256([]byte(secret))}
	s.mu.Lock()
	known := s.open[key]
	s.mu.Unlock()
	if known.bucket != nil && known.secret == now.secret {
		return known.bucket, nil
	}
	// Not under the lock: a provider's chain of credentials may ask the network.
	if now.bucket, err = s.places.openBucket(ctx, sync, secret); err != nil {
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

func (p Places) openBucket(ctx context.Context, sync *workload.Sync, secret string) (Bucket, error) {
	if sync.Sink.Type == workload.SinkFile {
		dir, err := p.folder(sync.Sink.Path)
		if err != nil {
			return nil, err
		}
		return openFolder(dir)
	}
	open, ok := providers[sync.Sink.Type]
	if !ok {
		return nil, fmt.Errorf("there is no such sink")
	}
	b, secrets, err := open(ctx, sync.Sink, secret)
	if err != nil {
		return nil, err
	}
	return newCloudBucket(b, sync.MaxSize, secrets), nil
}

// folder is the folder of a sink. Links in it are followed, so that it cannot
// be used to reach what is not allowed.
func (p Places) folder(name string) (string, error) {
	if name == "" {
		if p.State == "" {
			return "", fmt.Errorf("%w: the sink names none, and the server has none of its own", ErrPlace)
		}
		return p.State, nil
	}
	target, err := resolve(name)
	if err != nil {
		return "", err
	}
	for _, allowed := range append(slices.Clone(p.Folders), p.State) {
		dir, err := resolve(allowed)
		if err != nil || dir == "" || target != dir && !strings.HasPrefix(target, strings.TrimSuffix(dir, "/")+"/") {
			continue
		}
		// An empty folder in its place would be tenants without state. Whoever
		// allows a folder in a filesystem that may not be mounted is told so.
		if _, err := os.Stat(dir); err != nil && allowed != p.State {
			return "", fmt.Errorf("the folder that is allowed must be there: %w", err)
		}
		return target, nil
	}
	return "", fmt.Errorf("%w: %s", ErrPlace, name)
}

// resolve follows the links of as much of a path as there is.
func resolve(name string) (string, error) {
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
	above, aboveErr := resolve(dir)
	if aboveErr != nil {
		return "", err
	}
	return filepath.Join(above, filepath.Base(name)), nil
}
