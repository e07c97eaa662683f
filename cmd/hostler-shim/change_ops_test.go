package main

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// A request to start the main process that is repeated, because its response was
// lost, gets the same response, and starts nothing. One of no flow is refused.
func TestRepeatedStartMain(t *testing.T) {
	t.Parallel()
	s := newSupervisor(shim.Config{HostProcess: true, Args: []string{"/nonexistent"}, Workdir: "/"})
	start := shim.Request{Op: shim.OpStartMain, Fence: 5}
	s.main.set(shim.MainRunning, 1, nil)
	require.ErrorIs(t, s.applyChange(shim.Request{Op: shim.OpStartMain, Fence: shim.NoFence}), runtime.ErrStaleFence)
	for range 2 {
		require.NoError(t, s.applyChange(start), "init has started it, and then for this flow")
	}
	s.main.set(shim.MainFailed, 0, shim.NewWireError(&runtime.StartError{Reason: runtime.StartNotExecutable}))
	var startErr *runtime.StartError
	require.ErrorAs(t, s.applyChange(start), &startErr)
	require.Equal(t, runtime.StartNotExecutable, startErr.Reason)
}

// While init waits for a start, a request that is refused shortens the wait: its
// flow may have had the engine start init. One of the responsible flow gives that
// flow the time to start the main process.
func TestRefusedRequestEndsNoWaitOfResponsibleFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSupervisor(shim.Config{HostProcess: true})
		s.fence.current = 5
		s.waitForStart()
		require.True(t, s.startWait.Stop())
		ended := make(chan struct{}) // instead of this process
		s.startWait = time.AfterFunc(maxStartWait, func() { close(ended) })
		<-time.After(maxStartWait - time.Second)
		require.ErrorIs(t, s.applyChange(shim.Request{Op: shim.OpStop, Fence: 4}), runtime.ErrStaleFence)
		<-time.After(refusedStartWait - time.Second)
		require.ErrorIs(t, s.applyChange(shim.Request{Op: shim.OpRestart, Fence: 5}), runtime.ErrNotRunning)
		select {
		case <-ended:
			require.Fail(t, "the wait has ended")
		case <-time.After(maxStartWait - time.Second):
		}
		<-ended
	})
}

// The exit code of an init that is not told to start the main process is that of
// the container before. It is forgotten with the start: an init that is killed
// leaves none.
func TestRecordedExitCode(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/exit"
	s := newSupervisor(shim.Config{ExitFile: path, HostProcess: true, Args: []string{"/nonexistent"}, Workdir: "/"})
	require.Equal(t, sigkillExitCode, s.recordedExitCode(), "the earlier init was killed")
	require.NoError(t, writeExitFile(path, 7))
	require.Equal(t, 7, s.recordedExitCode())
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.Equal(t, sigkillExitCode, s.recordedExitCode())
	require.Error(t, s.startMain())
	require.NoFileExists(t, path)
}

// In a container that its engine has started again, the main process is started
// by the request for that alone, and not for an older flow. Every other change
// returns that it does not run: the server that starts it records that.
func TestWaitingMainIsStartedByItsRequestAlone(t *testing.T) {
	t.Parallel()
	marker := t.TempDir() + "/began"
	s := newSupervisor(shim.Config{HostProcess: true, Args: []string{"/nonexistent"}, Workdir: "/", StartedMarker: marker})
	s.fence.current = 5
	s.waitForStart()
	require.ErrorIs(t, s.applyChange(shim.Request{Op: shim.OpStop, Fence: 4}), runtime.ErrStaleFence)
	for _, op := range []shim.Op{shim.OpRestart, shim.OpRecordBaseline, shim.OpWipe} {
		require.ErrorIs(t, s.applyChange(shim.Request{Op: op, Fence: 4}), runtime.ErrStaleFence, op)
		require.ErrorIs(t, s.applyChange(shim.Request{Op: op, Fence: 6}), runtime.ErrNotRunning, op)
	}
	require.ErrorIs(t, s.applyChange(shim.Request{Op: shim.OpStartMain, Fence: 5}), runtime.ErrStaleFence)
	require.True(t, s.waitsForStart, "nothing was started")
	require.Equal(t, shim.MainStopped, s.main.get())
}

// An init that receives no request to start the main process exits, unless its
// engine would start it again.
func TestWaitingInitMayExit(t *testing.T) {
	t.Parallel()
	s := newSupervisor(shim.Config{HostProcess: true})
	require.False(t, s.canExitWaiting(), "the main process was started")
	s.waitsForStart = true
	require.True(t, s.canExitWaiting())
	s.config.StartedMarker = "/began"
	require.False(t, s.canExitWaiting())
	s.waitsForStart = false
	s.exitIfWaiting() // it was started in the meantime: this process continues
}
