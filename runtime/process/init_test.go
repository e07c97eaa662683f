package process

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// startContainer starts a container in a backend of its own.
func startContainer(t *testing.T) (rt *Runtime, p containerPaths, testprog string) {
	t.Helper()
	dir := newDir(t)
	testprog = copyTestprog(t, dir)
	// The address of a socket could not hold this path.
	rt = openRuntime(t, dir+"/a-long-directory-name-a-long-directory-name-a-long-directory-name-a-long-directory-name")
	spec := runtime.Spec{ID: "c", Command: []string{testprog, "idle"}, Workdir: "/data",
		Volumes: []runtime.Volume{{Name: "data", Target: "/data"}}}
	require.NoError(t, rt.Create(t.Context(), spec))
	t.Cleanup(func() { require.NoError(t, rt.Destroy(context.WithoutCancel(t.Context()), "c")) })
	require.NoError(t, rt.Start(t.Context(), "c", 1))
	return rt, rt.paths("c"), testprog
}

// Every process of its user may kill an init that is an ordinary process. The
// backend notices that, and Destroy ends what is left.
func TestInitKilled(t *testing.T) {
	t.Parallel()
	rt, p, _ := startContainer(t)
	initID, err := p.runningInit()
	require.NoError(t, err)
	all, err := proctree.Scan()
	require.NoError(t, err)
	tree := proctree.FilterDescendants(all, initID.PID)
	require.NotEmpty(t, tree)
	initID.Signal(unix.SIGKILL)
	require.True(t, waitExit(initID, time.Minute))

	status, err := rt.Status(t.Context(), "c")
	require.NoError(t, err)
	require.Equal(t, runtime.Exited, status.State)
	require.Equal(t, sigkillExitCode, status.ExitCode)
	_, err = rt.Exec(t.Context(), "c", runtime.Command{Args: []string{"true"}})
	require.ErrorIs(t, err, runtime.ErrNotRunning)
	require.NoError(t, rt.Destroy(t.Context(), "c"))
	for _, one := range tree {
		// A worker exits by itself when its init has exited, as soon as it notices.
		require.True(t, waitExit(one.ID, time.Minute), "process %d", one.PID)
	}
}

// A container whose init was asked to stop is neither clean nor started again,
// whatever the sender of the signal: otherwise the exit of the next main process would go
// unnoticed, and init would end the container minutes later.
func TestHaltIsFinal(t *testing.T) {
	t.Parallel()
	rt, p, testprog := startContainer(t)
	require.NoError(t, rt.RecordBaseline(t.Context(), "c", 1))
	initID, err := p.runningInit()
	require.NoError(t, err)
	require.NoError(t, unix.Kill(initID.PID, shim.HaltSignal))
	testenv.AwaitTrue(t, "the end of process 1", func() bool {
		_, err := rt.Exec(t.Context(), "c", runtime.Command{Args: []string{testprog, "pwd"}})
		return errors.Is(err, runtime.ErrNotRunning)
	})
	require.ErrorIs(t, rt.Wipe(t.Context(), "c", 2), runtime.ErrWipeUnverified)
	require.ErrorIs(t, rt.Restart(t.Context(), "c", 2), runtime.ErrTainted)
}

// A late request to start the main process does not undo a stop or a wipe of a
// server that has taken over: it ends no process that reads the tenant's files, and
// starts none of the tenant's.
func TestLateStartMainDoesNotUndoStop(t *testing.T) {
	t.Parallel()
	rt, _, testprog := startContainer(t)
	require.NoError(t, rt.Start(t.Context(), "c", 1), "it runs")
	require.NoError(t, rt.Stop(t.Context(), "c", 9))
	files, err := rt.CopyOut(t.Context(), "c", "/data")
	require.NoError(t, err)
	defer files.Close()
	for _, fence := range []int64{8, 1, shim.NoFence} {
		require.ErrorIs(t, rt.Start(t.Context(), "c", fence), runtime.ErrStaleFence)
	}
	_, err = io.Copy(io.Discard, files)
	require.NoError(t, err)
	_, err = rt.Exec(t.Context(), "c", runtime.Command{Args: []string{testprog, "pwd"}})
	require.ErrorIs(t, err, runtime.ErrNotRunning)
	require.NoError(t, rt.Restart(t.Context(), "c", 9))
}

// A late request to restart a container that has exited starts nothing: another
// flow may be about to read what the main process would change. The container is
// then exited as before.
func TestLateRestartOfExitedContainer(t *testing.T) {
	t.Parallel()
	rt, p, testprog := startContainer(t)
	require.NoError(t, rt.Restart(t.Context(), "c", 9))
	endMain := func() {
		_, _ = rt.Exec(t.Context(), "c", runtime.Command{Args: []string{testprog, "kill", "main", "TERM"}})
		testenv.AwaitTrue(t, "the end of process 1", func() bool { _, err := p.runningInit(); return err != nil })
	}
	endMain()
	require.ErrorIs(t, rt.Restart(t.Context(), "c", 8), runtime.ErrStaleFence)
	_, err := rt.Exec(t.Context(), "c", runtime.Command{Args: []string{testprog, "pwd"}})
	require.ErrorIs(t, err, runtime.ErrNotRunning)
	testenv.AwaitTrue(t, "the end of process 1", func() bool { _, err := p.runningInit(); return err != nil })

	for _, fence := range []int64{8, shim.NoFence} {
		require.ErrorIs(t, rt.Start(t.Context(), "c", fence), runtime.ErrStaleFence)
	}
	require.NoError(t, rt.Start(t.Context(), "c", 9))
	_, err = rt.Exec(t.Context(), "c", runtime.Command{Args: []string{testprog, "pwd"}})
	require.NoError(t, err)
	endMain()
	require.NoError(t, rt.Restart(t.Context(), "c", 9))
	_, err = rt.Exec(t.Context(), "c", runtime.Command{Args: []string{testprog, "pwd"}})
	require.NoError(t, err)
}

// A tenant may leave files with which the main process exits at once. They can be
// read all the same.
func TestStopOfContainerThatExitsAtOnce(t *testing.T) {
	t.Parallel()
	rt, ctx := openRuntime(t, newDir(t)), t.Context()
	require.NoError(t, rt.Create(ctx, runtime.Spec{ID: "c", Workdir: "/data",
		Command: []string{"/bin/sh", "-c", "test -e crash && exit 3; exec sleep 60"},
		Volumes: []runtime.Volume{{Name: "data", Target: "/data"}}}))
	t.Cleanup(func() { require.NoError(t, rt.Destroy(context.WithoutCancel(ctx), "c")) })
	require.NoError(t, rt.Start(ctx, "c", 1))
	_, err := rt.Exec(ctx, "c", runtime.Command{Args: []string{"/bin/sh", "-c", "touch crash"}, Fence: 5, Workdir: "/data"})
	require.NoError(t, err)
	_ = rt.Restart(ctx, "c", 5) // it may exit before the response
	testenv.AwaitTrue(t, "the end of process 1", func() bool { _, err := rt.paths("c").runningInit(); return err != nil })
	require.NoError(t, rt.Stop(ctx, "c", 6))
	files, err := rt.CopyOut(ctx, "c", "/data")
	require.NoError(t, err)
	require.NoError(t, files.Close())
}

// A call that is refused does not change how a container has exited. A restart
// does: an init that is killed after it does not leave an earlier exit code.
func TestExitCodeAfterRefusedCall(t *testing.T) {
	t.Parallel()
	rt, p, testprog := startContainer(t)
	ctx := t.Context()
	require.NoError(t, rt.Restart(ctx, "c", 5))
	exited := func() bool { _, err := p.runningInit(); return err != nil }
	_, _ = rt.Exec(ctx, "c", runtime.Command{Args: []string{testprog, "kill", "main", "HUP"}})
	testenv.AwaitTrue(t, "the exit", exited)
	require.Equal(t, 128+int(unix.SIGHUP), p.exitCode())
	require.ErrorIs(t, rt.Restart(ctx, "c", 4), runtime.ErrStaleFence)
	testenv.AwaitTrue(t, "the exit", exited)
	require.Equal(t, 128+int(unix.SIGHUP), p.exitCode())

	require.NoError(t, rt.Restart(ctx, "c", 5))
	initID, err := p.runningInit()
	require.NoError(t, err)
	initID.Signal(unix.SIGKILL)
	testenv.AwaitTrue(t, "the exit", exited)
	require.Equal(t, sigkillExitCode, p.exitCode())
}

// A record of an earlier process does not match the process that has the PID now.
func TestRecycledPID(t *testing.T) {
	t.Parallel()
	rt, p, _ := startContainer(t)
	require.NoError(t, rt.Destroy(t.Context(), "c"))
	require.NoError(t, rt.Create(t.Context(), runtime.Spec{ID: "c", Command: []string{"x"}}))
	me, err := proctree.Read(os.Getpid())
	require.NoError(t, err)
	record := []byte(`{"pid":` + strconv.Itoa(me.PID) + `,"start":1}`)
	require.NoError(t, os.WriteFile(p.record, record, 0o600))
	status, err := rt.Status(t.Context(), "c")
	require.NoError(t, err)
	require.Equal(t, runtime.Exited, status.State)
	require.NoError(t, rt.Destroy(t.Context(), "c"), "and this process survives")
}

// A directory that a tenant has replaced with a link is not emptied elsewhere.
func TestWipeDoesNotFollowSymlinks(t *testing.T) {
	t.Parallel()
	rt, p, testprog := startContainer(t)
	require.NoError(t, rt.RecordBaseline(t.Context(), "c", 1))
	elsewhere := newDir(t)
	require.NoError(t, os.WriteFile(elsewhere+"/file", nil, 0o600))
	for _, args := range [][]string{{"remove", p.hostPath("/data")}, {"link", elsewhere, p.hostPath("/data")}} {
		result, err := rt.Exec(t.Context(), "c", runtime.Command{Args: append([]string{testprog}, args...), Workdir: "/"})
		require.NoError(t, err)
		require.True(t, result.OK(), "%+v", result)
	}
	require.ErrorIs(t, rt.Wipe(t.Context(), "c", 1), runtime.ErrWipeUnverified)
	require.FileExists(t, elsewhere+"/file")
}

// A container whose Destroy was interrupted is listed until it is removed.
func TestInterruptedDestroyIsListed(t *testing.T) {
	t.Parallel()
	rt, p, _ := startContainer(t)
	require.NoError(t, os.Rename(p.dir, p.destroyingDir()))
	all, err := rt.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "c", all[0].ID)
	require.ErrorIs(t, rt.Create(t.Context(), runtime.Spec{ID: "c", Command: []string{"x"}}), runtime.ErrExists)
	require.NoError(t, rt.Destroy(t.Context(), "c"))
	all, err = rt.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, all)
}
