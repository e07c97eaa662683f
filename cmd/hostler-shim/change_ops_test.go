package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// The request to start the main process has no fence, and may come late: it does
// nothing once the container was stopped since init was started.
func TestStartMainOnlyWhileItWaits(t *testing.T) {
	t.Parallel()
	s := newSupervisor(shim.Config{HostProcess: true, Args: []string{"/nonexistent"}, Workdir: "/"})
	start := shim.Request{Op: shim.OpStartMain}
	s.main.set(shim.MainStopped, 0, nil)
	require.ErrorIs(t, s.applyChange(start), runtime.ErrStaleFence)
	s.main.set(shim.MainRunning, 1, nil)
	require.NoError(t, s.applyChange(start), "an earlier response was lost")
	s.main.set(shim.MainFailed, 0, shim.NewWireError(&runtime.StartError{Reason: runtime.StartBinaryNotFound}))
	var startErr *runtime.StartError
	require.ErrorAs(t, s.applyChange(start), &startErr)
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
