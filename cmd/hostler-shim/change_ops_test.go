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
