package docker_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/docker"
	"github.com/hostler/hostler/runtime/shim"
)

// relay is a proxy between the backend and the engine that can be disconnected.
type relay struct {
	path string

	mu       sync.Mutex
	listener net.Listener
	conns    []net.Conn
}

// newRelay starts a relay; the engine must listen on a local socket.
func newRelay(t *testing.T) *relay {
	t.Helper()
	target := needEngine(t).DaemonHost()
	if filepath.Dir(target) == target || len(target) < 8 || target[:7] != "unix://" {
		testenv.Skip(t, "docker", "the engine at %s listens on no local socket", target)
	}
	dir, err := os.MkdirTemp("", "relay") // a socket's path is short
	require.NoError(t, err)
	l := &relay{path: filepath.Join(dir, "sock")}
	t.Cleanup(func() { l.disconnect(); os.RemoveAll(dir) })
	l.restore(t, target[7:])
	return l
}

func (l *relay) restore(t *testing.T, target string) {
	t.Helper()
	listener, err := net.Listen("unix", l.path)
	require.NoError(t, err)
	l.mu.Lock()
	l.listener = listener
	l.mu.Unlock()
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("unix", target)
			if err != nil {
				near.Close()
				return
			}
			l.mu.Lock()
			l.conns = append(l.conns, near, far)
			l.mu.Unlock()
			go copyHalf(near, far)
			go copyHalf(far, near)
		}
	}()
}

// copyHalf copies one direction and passes on its end.
func copyHalf(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.(*net.UnixConn).CloseWrite()
}

// disconnect closes all connections and accepts no new ones.
func (l *relay) disconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listener.Close()
	for _, c := range l.conns {
		c.Close()
	}
	l.conns = nil
}

// An engine that does not respond is reported as unavailable, with its address
// and a hint. When it is available again everything works, and a command that
// continued in the meantime has its own outcome.
func TestEngineReconnect(t *testing.T) {
	t.Parallel()
	l := newRelay(t)
	rt := openRuntime(t, func(o *docker.Options) { o.Host = "unix://" + l.path })
	direct := openRuntime(t)
	id := startContainer(t, direct)
	require.Equal(t, "hi\n", mustExec(t, rt, id, "/box", "echo", "hi"))

	outcome := make(chan error, 1)
	watched, ready := make(chan error, 1), make(chan struct{})
	go func() { // ends with the command, which is killed below
		result, err := rt.Exec(context.Background(), id, runtime.Command{Args: []string{"/box", "hang", "through"}, Timeout: 10 * time.Minute})
		if err == nil && result.Signal != "SIGTERM" {
			err = io.ErrUnexpectedEOF
		}
		outcome <- err
	}()
	go func() {
		watched <- rt.Watch(context.Background(), func() { close(ready) }, func(runtime.Exit) {})
	}()
	<-ready
	var pid string
	testenv.AwaitTrue(t, "the command to run", func() bool {
		pid, _, _ = strings.Cut(mustExec(t, direct, id, "/box", "ps", "through"), " ")
		return pid != ""
	})
	l.disconnect()
	require.ErrorIs(t, <-watched, runtime.ErrUnavailable)
	_, err := rt.Status(t.Context(), id)
	require.ErrorIs(t, err, runtime.ErrUnavailable)
	require.ErrorContains(t, err, l.path)
	require.ErrorContains(t, err, "DOCKER_HOST")
	_, err = rt.CopyOut(t.Context(), id, "/data")
	require.ErrorIs(t, err, runtime.ErrUnavailable)
	require.ErrorIs(t, rt.Destroy(t.Context(), id), runtime.ErrUnavailable)
	mustExec(t, direct, id, "/box", "kill", pid, "TERM")
	l.restore(t, needEngine(t).DaemonHost()[7:])
	require.NoError(t, <-outcome, "the command's own exit, while the engine was unavailable")
	require.Equal(t, "hi\n", mustExec(t, rt, id, "/box", "echo", "hi"))
}

// An engine that accepts a connection and then does not respond blocks no call
// for longer than its context.
func TestUnresponsiveEngineHonoursContext(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer listener.Close()
	needEngine(t) // because of the shim: both are of this machine
	o := options(t)
	o.Host = "unix://" + path
	rt, err := docker.New(t.Context(), o)
	require.NoError(t, err)
	defer rt.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = rt.Exec(ctx, "x", runtime.Command{Args: []string{"/box"}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, rt.Destroy(ctx, "x"), context.DeadlineExceeded)
}

// A stream reports whether its container still runs, whatever the state of the
// stream. A container that the engine has started again is another one.
func TestStreamRunningDetectsRestart(t *testing.T) {
	t.Parallel()
	rt, api := openRuntime(t), needEngine(t)
	id := startContainer(t, rt)
	stream, err := rt.Dial(t.Context(), id)
	require.NoError(t, err)
	t.Cleanup(func() { stream.Close() })
	liveness := stream.(shim.LivenessChecker)
	require.NoError(t, liveness.CheckRunning(t.Context()))
	now := 0
	require.NoError(t, api.ContainerRestart(t.Context(), "hostler-"+id, container.StopOptions{Timeout: &now}))
	require.ErrorIs(t, liveness.CheckRunning(t.Context()), runtime.ErrNotRunning, "it was started again")
	require.NoError(t, api.ContainerStop(t.Context(), "hostler-"+id, container.StopOptions{Timeout: &now}))
	require.ErrorIs(t, liveness.CheckRunning(t.Context()), runtime.ErrNotRunning)
	require.NoError(t, rt.Destroy(t.Context(), id))
	require.ErrorIs(t, liveness.CheckRunning(t.Context()), runtime.ErrNotFound)
}
