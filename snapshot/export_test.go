package snapshot

import (
	"context"

	"github.com/hostler/hostler/workload"
)

// BucketOf returns the bucket of a sync's sink.
func (s *Sinks) BucketOf(ctx context.Context, sync *workload.Sync) (Bucket, error) {
	return s.bucket(ctx, sync)
}

// OpenCount returns how many buckets are open.
func (s *Sinks) OpenCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// PeekSize is how much an upload may store without memory from the quota.
const PeekSize = peekSize

// MaxConcurrentUploads is the maximum number of concurrent large uploads to a
// bucket that needs no memory itself.
const MaxConcurrentUploads = uploadMemory / passMemory
