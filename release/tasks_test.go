package release

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// One workload gets at most half of the slots, and the last quarter is for
// workloads without a task: no workload blocks another.
func TestKeyedTasksFairness(t *testing.T) {
	tasks := newKeyedTasks(8)
	unblock := make(chan struct{})
	tryStart := func(id, workload string) bool {
		before := len(tasks.running)
		tasks.start(id, workload, func() { <-unblock })
		return len(tasks.running) > before
	}
	for _, id := range []string{"w1", "w2", "w3", "w4"} {
		require.True(t, tryStart(id, "w"), id)
	}
	require.False(t, tryStart("w1", "w"), "it is running")
	require.False(t, tryStart("w5", "w"), "half of the slots")
	require.True(t, tryStart("v1", "v"))
	require.True(t, tryStart("v2", "v"))
	require.False(t, tryStart("v3", "v"), "the last quarter")
	require.True(t, tryStart("x1", "x"))
	require.True(t, tryStart("y1", "y"))
	require.False(t, tryStart("z1", "z"), "no slot is free")
	close(unblock)
	tasks.wait()
	require.Empty(t, tasks.running)
	require.Len(t, tasks.slotFree, 1, "the free slot is signaled")
	require.Equal(t, 1, tasks.last["w1"].count)
}
