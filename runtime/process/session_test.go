package process

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim/proctree"
	"github.com/stretchr/testify/require"
)

// recordInit records a process as the init of a new container without one.
func recordInit(t *testing.T, pid int) (*Runtime, containerPaths) {
	t.Helper()
	rt := openRuntime(t, newDir(t))
	require.NoError(t, rt.Create(t.Context(), runtime.Spec{ID: "c", Command: []string{"x"}}))
	process, err := proctree.Read(pid)
	require.NoError(t, err)
	text, err := json.Marshal(process.ID)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(rt.paths("c").record, text, 0o600))
	return rt, rt.paths("c")
}

// startProcess starts a process that exits when the function that it returns is called,
// at the latest with the test.
func startProcess(t *testing.T) (pid int, end func()) {
	t.Helper()
	c := exec.Command("cat")
	stdin, err := c.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	exited := make(chan struct{})
	go func() { defer close(exited); _ = c.Wait() }() // ends with the process
	t.Cleanup(func() { _ = stdin.Close(); <-exited })
	return c.Process.Pid, func() { _ = stdin.Close() }
}

// listenOn listens on the socket of a container.
func listenOn(t *testing.T, p containerPaths) {
	t.Helper()
	l, err := net.Listen("unix", p.socketFile())
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
}

// An init that does not listen, and that a busy machine does not let exit for some
// time, is about to exit: what it leaves can be saved.
func TestInitExitsSlowly(t *testing.T) {
	t.Parallel()
	pid, end := startProcess(t)
	rt, _ := recordInit(t, pid)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := rt.dial(ctx, "c")
	require.ErrorIs(t, err, context.Canceled)
	time.AfterFunc(500*time.Millisecond, end)
	_, _, err = rt.dial(t.Context(), "c")
	require.ErrorIs(t, err, runtime.ErrNotRunning)
}

// An init that a busy machine does not let listen for some time is awaited.
func TestInitListensLate(t *testing.T) {
	t.Parallel()
	rt, p := recordInit(t, os.Getpid())
	listened := make(chan struct{})
	time.AfterFunc(500*time.Millisecond, func() {
		defer close(listened)
		listenOn(t, p)
	})
	conn, _, err := rt.dial(t.Context(), "c")
	<-listened
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.Greater(t, listenTimeout, 3*time.Second, "it may be much later")
}

// A process that listens in place of init is not talked to, unless it is init by then.
func TestOtherProcessListens(t *testing.T) {
	t.Parallel()
	pid, _ := startProcess(t)
	rt, p := recordInit(t, pid)
	listenOn(t, p)
	_, _, err := rt.dial(t.Context(), "c")
	require.ErrorIs(t, err, runtime.ErrTainted)
	me, err := proctree.Read(os.Getpid())
	require.NoError(t, err)
	conn, err := dialSocket(t.Context(), p.socketFile())
	require.NoError(t, err)
	isInit, err := p.checkPeer(conn, proctree.ID{PID: me.PID + 1})
	require.NoError(t, err, "another one is recorded")
	require.False(t, isInit)
	require.NoError(t, conn.Close())
}
