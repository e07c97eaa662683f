package snapshot

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/pack"
	"github.com/hostler/hostler/workload"
)

// Files has the methods of a runtime that transfers need; runtime.Files has
// them.
type Files = tree.Trees

// Sink stores the state of one workload's tenants in a bucket. It is safe for
// concurrent use.
type Sink struct {
	bucket Bucket
	sync   *workload.Sync
	quota  *memoryQuota
	// keys encrypt what is stored; nil for no encryption.
	keys  pack.Keys
	wide  wideDownloads
	clock bucketClock
}

// New returns the sink of a workload's sync on an open bucket. Sinks opens the
// bucket that the workload names.
func New(bucket Bucket, sync *workload.Sync) *Sink {
	return &Sink{bucket: bucket, sync: sync, quota: newMemoryQuota(uploadMemory), wide: newWideDownloads()}
}

// Current returns the snapshot that a download would put into a container, or
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
