package process

import (
	"context"
	"testing"
	"time"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// startAndExit starts a container and waits until its main process has exited.
func startAndExit(t *testing.T, rt *Runtime, id string) {
	t.Helper()
	require.NoError(t, rt.Create(t.Context(), runtime.Spec{ID: id, Command: []string{"/bin/sleep", "60"}}))
	t.Cleanup(func() { require.NoError(t, rt.Destroy(context.WithoutCancel(t.Context()), id)) })
	require.NoError(t, rt.Start(t.Context(), id, 1))
	initID, err := rt.paths(id).runningInit()
	require.NoError(t, err)
	initID.Signal(unix.SIGTERM)
	require.True(t, waitExit(initID, time.Minute))
	testenv.AwaitTrue(t, "the process to be reaped", func() bool {
		fd, err := unix.PidfdOpen(initID.PID, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err != nil
	})
}

// A container that has started and exited before the watcher looks, because the machine
// is busy, is reported, and once.
func TestWatchReportsShortLives(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t, newDir(t))
	w, err := rt.newWatcher()
	require.NoError(t, err)
	t.Cleanup(w.closeFDs)
	require.NoError(t, w.watchAll())
	startAndExit(t, rt, "a")
	startAndExit(t, rt, "b")
	var exits []string
	note := func(e runtime.Exit) { exits = append(exits, e.ID) }
	require.NoError(t, w.poll(note))
	require.ElementsMatch(t, []string{"a", "b"}, exits)
	require.NoError(t, w.watchAll())
	w.wake()
	require.NoError(t, w.poll(note))
	require.Len(t, exits, 2)
	require.NoError(t, rt.Destroy(t.Context(), "a"))
	require.NoError(t, w.watchAll())
	require.Len(t, w.found, 1)
}
