package api

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each sender has its first 64 KiB, whatever the others use. The rest is shared.
func TestBodiesAreShared(t *testing.T) {
	b := bodies{max: 64 << 20}
	for i := range 8 {
		actor := "key:" + strconv.Itoa(i)
		require.True(t, b.add(actor, 64<<10))
		require.True(t, b.add(actor, 8<<20))
		require.False(t, b.add(actor, 1), "more than its share")
	}
	require.True(t, b.add("key:x", 64<<10))
	require.False(t, b.add("key:x", 1), "all is in use")
	require.True(t, b.add("key:0", -1))
	require.True(t, b.add("key:x", 1))
	require.True(t, b.add("key:x", -1))
	require.True(t, b.add("key:x", -64<<10))
	for i := range 8 {
		require.True(t, b.add("key:"+strconv.Itoa(i), -b.used["key:"+strconv.Itoa(i)]))
	}
	require.Empty(t, b.used)
	require.Zero(t, b.shared)
}

// All bodies together have a part of the memory limit, and one of each route fits.
func TestSharedFor(t *testing.T) {
	for memory, want := range map[int64]int64{math.MaxInt64: 64 << 20, 400 << 20: 50 << 20, 1 << 20: 8 << 20} {
		require.Equal(t, want, sharedFor(memory))
	}
	for id, r := range rules {
		require.Less(t, r.body+maxParts*partBytes, int64(maxSharedByOne), id)
	}
}
