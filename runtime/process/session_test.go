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

// slowProcess starts a process that exits after some seconds.
func slowProcess(t *testing.T) (pid int) {
	t.Helper()
	c := exec.Command("sleep", "3")
	require.NoError(t, c.Start())
	go func() { _ = c.Wait() }() // ends with the process
	return c.Process.Pid
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
	rt, _ := recordInit(t, slowProcess(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := rt.dial(ctx, "c")
	require.ErrorIs(t, err, context.Canceled)
	_, _, err = rt.dial(t.Context(), "c")
	require.ErrorIs(t, err, runtime.ErrNotRunning)
}

// An init that a busy machine does not let listen for some time is awaited.
func TestInitListensLate(t *testing.T) {
	t.Parallel()
	rt, p := recordInit(t, os.Getpid())
	listened := make(chan struct{})
	time.AfterFunc(3*time.Second, func() {
		defer close(listened)
		listenOn(t, p)
	})
	conn, _, err := rt.dial(t.Context(), "c")
	<-listened
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

// A process that listens in place of init is not talked to, unless it is init by then.
func TestOtherProcessListens(t *testing.T) {
	t.Parallel()
	rt, p := recordInit(t, slowProcess(t))
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
