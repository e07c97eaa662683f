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

// A command continues without a server, as long as its timeout allows, and its
// outcome is available to a restarted server.
func TestCommandOutlivesServer(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	testprog := copyTestprog(t, dir)
	rt := openRuntime(t, dir+"/data")
	spec := runtime.Spec{ID: "c", Command: []string{testprog, "idle"}}
	require.NoError(t, rt.Create(t.Context(), spec))
	last := openRuntime(t, dir+"/data")
	t.Cleanup(func() { require.NoError(t, last.Destroy(context.WithoutCancel(t.Context()), "c")) })
	require.NoError(t, rt.Start(t.Context(), "c", 1))

	cmd := runtime.Command{RunID: "hangs", Args: []string{testprog, "hang"}, Timeout: 3 * time.Second, Grace: new(10 * time.Second)}
	done := make(chan error, 1)
	go func() { // ends with the session
		_, err := rt.Exec(t.Context(), "c", cmd)
		done <- err
	}()
	hangs := awaitCommand(t, rt.paths("c"), "hang")
	require.NoError(t, rt.Close())
	require.Error(t, <-done, "the session was closed")
	require.True(t, waitExit(hangs, 20*time.Second), "the container enforces its timeout")
	result, err := last.WaitResult(t.Context(), "c", cmd)
	require.NoError(t, err)
	require.True(t, result.TimedOut, "only the timeout has ended it: %+v", result)
}

// awaitCommand waits for the command in a container that has this argument. A
// worker may briefly have another child, which it starts to warm up.
func awaitCommand(t *testing.T, p containerPaths, arg string) (found proctree.ID) {
	t.Helper()
	initID, err := p.runningInit()
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		all, err := proctree.Descendants(initID.PID)
		require.NoError(t, err)
		for _, one := range all {
			line, _ := os.ReadFile("/proc/" + strconv.Itoa(one.PID) + "/cmdline") // an exited one has none
			if one.Parent != initID.PID && strings.HasSuffix(string(line), "\x00"+arg+"\x00") {
				found = one.ID
				return true
			}
		}
		return false
	}, 10*time.Second, time.Millisecond)
	return found
}
