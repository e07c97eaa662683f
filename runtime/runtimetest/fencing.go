package runtimetest

import (
	"archive/tar"
	"testing"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// fencingCase tests the number that the calls which change a container carry: a
// flow that is no longer responsible for a container changes nothing in it.
func fencingCase(t *testing.T, s *suite) {
	c := s.start(t, writesEnvironment) // it handles SIGTERM from then on
	c.mainEnvironment(t)
	require.NoError(t, s.rt.RecordBaseline(t.Context(), c.id, 5))
	c.mainEnvironment(t)
	require.NoError(t, s.rt.RecordBaseline(t.Context(), c.id, 5), "an equal number is accepted")
	c.mainEnvironment(t)
	c.requireStaleFence(t, s.rt, 4)
	c.mustExec(t, "echo", "nothing was ended")

	require.NoError(t, s.rt.Restart(t.Context(), c.id, 7))
	c.mainEnvironment(t)
	c.requireStaleFence(t, s.rt, 6)

	c.endMain(t)
	require.NoError(t, s.rt.Start(t.Context(), c.id, 7), "Start of an exited container")
	c.mainEnvironment(t)
	c.requireStaleFence(t, s.rt, 6)
	c.mustExec(t, "echo", "nothing was ended")

	c.endMain(t)
	require.ErrorIs(t, s.rt.Start(t.Context(), c.id, 6), runtime.ErrStaleFence, "of an exited container")
	require.ErrorIs(t, s.rt.Stop(t.Context(), c.id, 6), runtime.ErrStaleFence, "of an exited container")
	require.ErrorIs(t, s.rt.Restart(t.Context(), c.id, 6), runtime.ErrStaleFence, "of an exited container")
	_, err := c.exec(t, c.command("echo", "the main process was not started"))
	require.ErrorIs(t, err, runtime.ErrNotRunning)
	testenv.AwaitTrue(t, "it is exited as before", func() bool { return c.state(t, c.id) == runtime.Exited })
	status, err := s.rt.Status(t.Context(), c.id)
	require.NoError(t, err)
	require.Equal(t, 0, status.ExitCode, "that of the main process")
	require.NoError(t, s.rt.Restart(t.Context(), c.id, 9), "of an exited container")
	require.Equal(t, runtime.Running, c.state(t, c.id))
	c.requireStaleFence(t, s.rt, 8)
	if s.Reopen != nil {
		c.requireStaleFence(t, s.Reopen(t), 8)
	}
	c.mustExec(t, "echo", "nothing was ended")
}

// requireStaleFence asserts that a number smaller than the container's has no
// effect.
func (c *container) requireStaleFence(t *testing.T, rt runtime.Runtime, fence int64) {
	t.Helper()
	ctx := t.Context()
	c.mustExec(t, "write", "kept", "x")
	require.ErrorIs(t, rt.Start(ctx, c.id, fence), runtime.ErrStaleFence, "Start")
	require.ErrorIs(t, rt.Restart(ctx, c.id, fence), runtime.ErrStaleFence, "Restart")
	require.ErrorIs(t, rt.Stop(ctx, c.id, fence), runtime.ErrStaleFence, "Stop")
	require.ErrorIs(t, rt.RecordBaseline(ctx, c.id, fence), runtime.ErrStaleFence, "RecordBaseline")
	require.ErrorIs(t, rt.Wipe(ctx, c.id, fence), runtime.ErrStaleFence, "Wipe")
	archive := pack(t, archiveEntry{"kept", tar.TypeReg, 0o644, "y"})
	require.ErrorIs(t, rt.CopyIn(ctx, c.id, "/data", fence, archive), runtime.ErrStaleFence, "CopyIn")
	cmd := c.command("write", "kept", "y")
	cmd.RunID, cmd.Fence = newMarker(), fence
	_, err := rt.Exec(ctx, c.id, cmd)
	require.ErrorIs(t, err, runtime.ErrStaleFence, "Exec")
	_, err = rt.WaitResult(ctx, c.id, cmd)
	require.ErrorIs(t, err, runtime.ErrUnknownRun, "of a command that was refused")
	require.Equal(t, "x", c.mustExec(t, "read", "kept"))
	cmd = c.command("write", "kept", "z")
	cmd.RunID, cmd.Fence = newMarker(), fence+1
	for range 2 {
		result, err := rt.Exec(ctx, c.id, cmd)
		require.NoError(t, err, "Exec with the container's own fence")
		require.True(t, result.OK())
		cmd.Fence-- // the result of a command that ran is known to every flow
	}
	require.NoError(t, rt.CopyIn(ctx, c.id, "/data", fence+1, pack(t, archiveEntry{"other", tar.TypeReg, 0o644, "y"})))
}

// stopCase tests Stop: every process ends, the container and its files stay.
func stopCase(t *testing.T, s *suite) {
	c := s.start(t)
	c.mustExec(t, "write", "kept", "still here")
	require.NoError(t, s.rt.Stop(t.Context(), c.id, 1))
	require.NoError(t, s.rt.Stop(t.Context(), c.id, 1), "a second time")
	require.Equal(t, runtime.Running, s.state(t, c.id), "it is not an exit")
	_, err := c.exec(t, c.command("exit", "0"))
	require.ErrorIs(t, err, runtime.ErrNotRunning)
	require.Equal(t, "still here", c.copyOut(t, "/data")["kept"].body)
	require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
	require.Equal(t, "still here", c.mustExec(t, "read", "kept"))

	c.endMain(t)
	c.requireStopOfExited(t)
	require.NoError(t, s.rt.Restart(t.Context(), c.id, 2), "of an exited and stopped container")
	require.Equal(t, "still here", c.mustExec(t, "read", "kept"))

	created := s.Spec(t)
	s.create(t, created)
	require.ErrorIs(t, s.rt.Stop(t.Context(), created.ID, 1), runtime.ErrNotRunning, "of a container that was never started")
	require.Equal(t, runtime.Created, s.state(t, created.ID))
}

// requireStopOfExited asserts that the files of a container that has exited can be
// read, and that its main process is not started for that: it could exit at once.
func (c *container) requireStopOfExited(t *testing.T) {
	t.Helper()
	before := c.log(t, 1<<20)
	require.NoError(t, c.rt.Stop(t.Context(), c.id, 2), "of an exited container")
	require.NoError(t, c.rt.Stop(t.Context(), c.id, 2), "a second time")
	require.ErrorIs(t, c.rt.Start(t.Context(), c.id, 1), runtime.ErrStaleFence, "a late Start")
	require.ErrorIs(t, c.rt.Restart(t.Context(), c.id, 1), runtime.ErrStaleFence, "a late Restart")
	_, err := c.exec(t, c.command("exit", "0"))
	require.ErrorIs(t, err, runtime.ErrNotRunning)
	require.Equal(t, "still here", c.copyOut(t, "/data")["kept"].body)
	require.Equal(t, before, c.log(t, 1<<20), "the main process was not started")
}
