package api

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each credential has its first 64 KiB, whatever the others use. The rest is shared.
func TestBodiesAreShared(t *testing.T) {
	var b bodies
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
