package snapshot

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/index"
	"github.com/hostler/hostler/snapshot/pack"
)

// The memory of a chunk that is in several items is used again after the last one is
// released, and not before. What it occupies counts as a whole.
func TestMemoryOfSharedChunk(t *testing.T) {
	f := &fetcher{blobs: map[pack.Ref]*blob{}, freed: make(chan struct{}, 1)}
	const size = 100_000
	for range 50 { // a pool may lose what it is given
		b := &blob{ref: pack.Ref{Size: size}, data: f.memory.get(size), uses: 2}
		f.used, f.count = memoryOf(b.ref), 2
		require.Equal(t, cap(b.data), f.used)
		f.release(item{blob: b})
		other := f.memory.get(size)
		require.NotSame(t, &b.data[0], &other[0])
		require.NotZero(t, f.used)
		f.release(item{blob: b})
		require.Zero(t, f.used)
		require.Nil(t, b.data)
		f.memory.put(other)
	}
}

// The memory that an import holds is counted: it is refused at the limit, and not
// before.
func TestImportLimitOfMemory(t *testing.T) {
	var l importLimits
	r := index.Record{Entry: tree.Entry{Path: strings.Repeat("x", 4000), Kind: tree.File}}
	for range maxImportMemory / (recordMemory + len(r.Path)) {
		require.NoError(t, l.hold(r))
	}
	err := l.hold(r)
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "64 MiB of memory")
}

// What an item and its chunk occupy is free again when they are released, and nothing
// else: a download would otherwise read ahead without a limit, or stop.
func TestMemoryIsCountedOnce(t *testing.T) {
	f := &fetcher{
		ctx: context.Background(), items: make(chan item, 8), maxUsed: wideWindow, maxCount: 8,
		blobs: map[pack.Ref]*blob{}, freed: make(chan struct{}, 1),
	}
	small, large := &index.Chunk{Ref: pack.Ref{Size: 1000}}, &index.Chunk{Ref: pack.Ref{Size: 100_000}}
	for _, c := range []*index.Chunk{small, large, large, {Hole: 5}, nil, small} {
		require.NoError(t, f.add(item{}, c))
	}
	require.Equal(t, 6*itemSize+memoryOf(small.Ref)+memoryOf(large.Ref), f.used)
	require.Equal(t, 6, f.count)
	require.Len(t, f.blobs, 2)
	for _, b := range f.blobs {
		b.data = f.memory.get(int(b.ref.Size))
	}
	for range 6 {
		it := <-f.items
		require.True(t, it.blob == nil || it.blob.data != nil)
		f.release(it)
	}
	require.Zero(t, f.used)
	require.Zero(t, f.count)
	require.Empty(t, f.blobs)
}
