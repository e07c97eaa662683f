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
		require.True(t, b.add([]string{actor}, 64<<10))
		require.True(t, b.add([]string{actor}, 8<<20))
		require.False(t, b.add([]string{actor}, 1), "more than its share")
	}
	require.Empty(t, b.makers["key:x"])
	require.True(t, b.add([]string{"key:x"}, 64<<10))
	require.False(t, b.add([]string{"key:x"}, 1), "all is in use")
	require.True(t, b.add([]string{"key:0"}, -1))
	require.True(t, b.add([]string{"key:x"}, 1))
	require.True(t, b.add([]string{"key:x"}, -1))
	require.True(t, b.add([]string{"key:x"}, -64<<10))
	for i := range 8 {
		require.True(t, b.add([]string{"key:" + strconv.Itoa(i)}, -b.used["key:"+strconv.Itoa(i)]))
	}
	ada, bob := []string{"key:x", "token:x#ada"}, []string{"key:x", "token:x#bob"}
	require.True(t, b.add(ada, 64<<10+6<<20))
	require.False(t, b.add(ada, 1), "the tokens of a tenant leave something to others")
	require.True(t, b.add(bob, 64<<10+2<<20))
	require.False(t, b.add(bob, 1), "the key and its tokens have no more than a key")
	require.True(t, b.add([]string{"key:x"}, 64<<10))
	require.False(t, b.add([]string{"key:x"}, 1))
	for _, senders := range [][]string{ada, bob, {"key:x"}} {
		require.True(t, b.add(senders, -b.used[senders[len(senders)-1]]))
	}
	require.Empty(t, b.used)
	require.Empty(t, b.makers)
	require.Zero(t, b.shared)
}

// All bodies together have a part of the memory limit, and one of each route fits.
func TestSharedFor(t *testing.T) {
	for memory, want := range map[int64]int64{math.MaxInt64: 64 << 20, 400 << 20: 50 << 20, 1 << 20: 8 << 20} {
		require.Equal(t, want, sharedFor(memory))
	}
	for id, r := range rules {
		require.Less(t, r.body+maxParts*partBytes, int64(maxSharedByToken), id)
	}
}
