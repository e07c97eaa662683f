package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim/proctree"
	"golang.org/x/sys/unix"
)

// Close ends all sessions. The containers keep running.
func (r *Runtime) Close() error { return r.sessions.Close() }

// dial connects to the socket of a container's init.
func (r *Runtime) dial(ctx context.Context, id string) (io.ReadWriteCloser, int, error) {
	p, err := r.lookup(id)
	if err != nil {
		return nil, 0, err
	}
	initID, err := p.runningInit()
	if err != nil {
		return nil, 0, err
	}
	_, version, err := p.readCompatible()
	if err != nil {
		return nil, 0, err
	}
	conn, err := dialSocket(ctx, p.socketFile())
	if err != nil {
		return nil, 0, dialError(ctx, initID, err)
	}
	if peer, err := peerPID(conn); err != nil || peer != initID.PID {
		conn.Close()
		return nil, 0, fmt.Errorf("%w: process %d listens on the socket of its init", runtime.ErrTainted, peer)
	}
	return conn, version, nil
}

// checkRunning returns nil if the container's init is running.
func (r *Runtime) checkRunning(_ context.Context, id string) error {
	p, err := r.lookup(id)
	if err == nil {
		_, err = p.runningInit()
	}
	return err
}

// dialSocket connects through a descriptor: an address holds only 107 bytes.
func dialSocket(ctx context.Context, path string) (*net.UnixConn, error) {
	dir, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var d net.Dialer
	short := "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(path)
	conn, err := d.DialContext(ctx, "unix", short)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

func peerPID(conn *net.UnixConn) (pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var credentials *unix.Ucred
	var inner error
	err = raw.Control(func(fd uintptr) {
		credentials, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, inner); err != nil {
		return 0, err
	}
	return int(credentials.Pid), nil
}

// exitTimeout bounds the exit of an init that no longer listens. It takes no time,
// unless the machine stalls.
const exitTimeout = 20 * time.Second

// dialError distinguishes an init that is about to exit from one whose socket
// another process has removed.
func dialError(ctx context.Context, initID proctree.ID, err error) error {
	const interval = 100 * time.Millisecond // in which the end of ctx is noticed
	for begun := time.Now(); time.Since(begun) < exitTimeout; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if waitExit(initID, interval) {
			return fmt.Errorf("%w: %w", runtime.ErrNotRunning, err)
		}
	}
	return fmt.Errorf("%w: its socket does not respond: %w", runtime.ErrTainted, err)
}

// waitExit waits for a process to exit, and reports whether it did.
func waitExit(id proctree.ID, limit time.Duration) bool {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err != nil {
		return !id.IsAlive()
	}
	defer unix.Close(fd)
	if !id.IsAlive() {
		return true
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for end := time.Now().Add(limit); time.Now().Before(end); {
		n, err := unix.Poll(fds, int(time.Until(end).Milliseconds())+1)
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return !id.IsAlive()
}
