package snapshot

import (
	"context"
	"fmt"
	"io"

	"github.com/hostler/hostler/workload"
)

// Files is what is asked of the runtime of a container: runtime.Files has it.
type Files interface {
	// CopyIn unpacks an archive into an existing folder; runtime.ErrFileNotFound
	// when there is none. It fails when reading the archive does.
	CopyIn(ctx context.Context, id, dir string, tar io.Reader) error
	// CopyOut packs what is below a folder; runtime.ErrFileNotFound when there is
	// none. Only a whole archive ends in io.EOF.
	CopyOut(ctx context.Context, id, dir string) (io.ReadCloser, error)
}

// Sink keeps the state of one workload's tenants in a bucket. It may be used
// by many goroutines at once.
type Sink struct {
	bucket Bucket
	sync   *workload.Sync
	quota  *memoryQuota
}

// New is the sink of a workload's sync on a bucket that is open already. Sinks
// opens the one that the workload names.
func New(bucket Bucket, sync *workload.Sync) *Sink {
	return &Sink{bucket: bucket, sync: sync, quota: newMemoryQuota(uploadMemory)}
}

// Current is the snapshot that a download would put into a container;
// ErrNoSnapshot when there is none.
func (s *Sink) Current(ctx context.Context, o Owner) (Snapshot, error) {
	list, err := s.List(ctx, o)
	if err != nil {
		return Snapshot{}, err
	}
	if len(list) == 0 {
		return Snapshot{}, fmt.Errorf("tenant %q of workload %s: %w", o.Tenant, o.Workload, ErrNoSnapshot)
	}
	return list[0], nil
}

// List lists the snapshots that are kept, the current one first.
func (s *Sink) List(ctx context.Context, o Owner) ([]Snapshot, error) {
	at, err := ownerDir(s.sync.Sink, o)
	if err != nil {
		return nil, err
	}
	h, err := s.loadManifest(ctx, at, o)
	if err != nil {
		return nil, fmt.Errorf("list the snapshots of tenant %q of workload %s: %w", o.Tenant, o.Workload, err)
	}
	return h.Snapshots, nil
}
