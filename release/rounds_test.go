package release

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// One workload has half of the places at most, and the last quarter is for
// those that have none: no workload keeps another from its turn.
func TestRounds(t *testing.T) {
	r := newRounds(8)
	goOn := make(chan struct{})
	begin := func(id, workload string) bool {
		before := len(r.busy)
		r.begin(id, workload, func() { <-goOn })
		return len(r.busy) > before
	}
	for _, id := range []string{"w1", "w2", "w3", "w4"} {
		require.True(t, begin(id, "w"), id)
	}
	require.False(t, begin("w1", "w"), "it is under way")
	require.False(t, begin("w5", "w"), "half of the places")
	require.True(t, begin("v1", "v"))
	require.True(t, begin("v2", "v"))
	require.False(t, begin("v3", "v"), "the last quarter")
	require.True(t, begin("x1", "x"))
	require.True(t, begin("y1", "y"))
	require.False(t, begin("z1", "z"), "there is no room")
	close(goOn)
	r.wait()
	require.Empty(t, r.busy)
	require.Len(t, r.room, 1, "who found none is told")
	require.Equal(t, 1, r.last["w1"].n)
}
