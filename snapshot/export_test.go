package snapshot

import (
	"context"

	"github.com/hostler/hostler/snapshot/statekey"
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

// KeysOf returns the keys of a sink.
func KeysOf(s *Sink) *statekey.Keys { return s.keys }

// PeekSize is the size from which a state is read twice.
const PeekSize = peekSize

// MaxConcurrentUploads is the maximum number of concurrent large uploads to a
// bucket that needs no memory itself.
const MaxConcurrentUploads = uploadMemory / packMemory
