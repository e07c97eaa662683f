package snapshot

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

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
func KeysOf(s *Sink) *statekey.Keys {
	keys, _ := s.keys.(packKeys)
	return keys.Keys
}

// PeekSize is how much an upload may store without memory from the quota.
const PeekSize = peekSize

// MaxConcurrentUploads is the maximum number of concurrent large uploads to a
// bucket that needs no memory itself.
const MaxConcurrentUploads = uploadMemory / passMemory

// MinCompacted is how many small packs an index has at most.
const MinCompacted = minCompacted

// PacksOf returns how many packs the first part of a snapshot needs.
func (s *Sink) PacksOf(t testing.TB, of Snapshot) int {
	t.Helper()
	o := Owner{Workload: "w", Tenant: "alice"}
	at, err := ownerDir(s.sync.Sink, o)
	require.NoError(t, err)
	h, err := s.loadManifest(t.Context(), at, o)
	require.NoError(t, err)
	repo := s.repository(at, h)
	from := repo.reader(nil)
	defer from.Close()
	root, err := repo.openPart(t.Context(), from, of.Parts[0])
	require.NoError(t, err)
	return len(root.Packs)
}

// RecordMemory is what an import counts for a record.
const RecordMemory = recordMemory
