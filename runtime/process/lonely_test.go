package process

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim/proctree"
	"github.com/stretchr/testify/require"
)

// A command that nobody can be waiting for is ended by init itself, and its
// outcome is there for a server that comes back. One that somebody waits for
// runs on, however long.
func TestLonely(t *testing.T) {
	t.Parallel()
	const lonely = 200 * time.Millisecond
	dir := newDir(t)
	box := boxIn(t, dir)
	rt := open(t, dir+"/data")
	rt.lonely = lonely
	spec := runtime.Spec{ID: "c", Command: []string{box, "idle"}}
	require.NoError(t, rt.Create(t.Context(), spec))
	last := open(t, dir+"/data")
	t.Cleanup(func() { require.NoError(t, last.Destroy(context.WithoutCancel(t.Context()), "c")) })
	require.NoError(t, rt.Start(t.Context(), "c"))

	cmd := runtime.Command{Key: "hangs", Args: []string{box, "hang"}, Timeout: time.Minute, Grace: 10 * time.Second}
	over := make(chan error, 1)
	go func() { // ends when the session does
		_, err := rt.Exec(t.Context(), "c", cmd)
		over <- err
	}()
	hangs := commandOf(t, rt.place("c"), "hang")
	select {
	case err := <-over:
		require.Fail(t, "the command was ended while somebody waits for it", "%v", err)
	case <-time.After(3 * lonely):
	}
	require.True(t, hangs.Alive())

	require.NoError(t, rt.Close())
	require.Error(t, <-over, "the session was closed")
	require.True(t, waitDead(hangs, 10*time.Second), "the command runs on without anybody")
	result, err := last.Exec(t.Context(), "c", cmd)
	require.NoError(t, err)
	require.Equal(t, 128+15, result.ExitCode, "it is the outcome, not another run")
	require.Equal(t, "SIGTERM", result.Signal)
	require.False(t, result.TimedOut)
}

// commandOf waits for the command in a container that is called with an
// argument. A worker may have another child for a moment, by which it warms up.
func commandOf(t *testing.T, p place, arg string) (found proctree.ID) {
	t.Helper()
	init, err := p.running()
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		all, err := proctree.Descendants(init.PID)
		require.NoError(t, err)
		for _, one := range all {
			line, _ := os.ReadFile("/proc/" + strconv.Itoa(one.PID) + "/cmdline") // of one that is gone there is none
			if one.Parent != init.PID && strings.HasSuffix(string(line), "\x00"+arg+"\x00") {
				found = one.ID
				return true
			}
		}
		return false
	}, 10*time.Second, time.Millisecond)
	return found
}
