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

// dial connects to the socket of a container's init. An init that is recorded may not
// listen yet, or not any more, and another one may take its place.
func (r *Runtime) dial(ctx context.Context, id string) (io.ReadWriteCloser, int, error) {
	p, err := r.lookup(id)
	if err != nil {
		return nil, 0, err
	}
	for begun := time.Now(); ; {
		initID, err := p.runningInit()
		if err != nil {
			return nil, 0, err
		}
		_, version, err := p.readCompatible()
		if err != nil {
			return nil, 0, err
		}
		conn, err := dialSocket(ctx, p.socketFile())
		if err == nil {
			isInit, err := p.checkPeer(conn, initID)
			if isInit {
				return conn, version, nil
			}
			conn.Close()
			if err != nil {
				return nil, 0, err
			}
			continue
		}
		if ctx.Err() != nil {
			return nil, 0, context.Cause(ctx)
		}
		if time.Since(begun) > listenTimeout {
			return nil, 0, fmt.Errorf("%w: its socket does not respond: %w", runtime.ErrTainted, err)
		}
		waitExit(initID, dialInterval)
	}
}

const (
	// listenTimeout bounds how long an init that runs does not listen. It takes no
	// time to begin, and to exit, unless the machine stalls. After that another
	// process has removed the socket.
	listenTimeout = 20 * time.Second
	dialInterval  = 50 * time.Millisecond
)

// checkPeer reports whether init is at the other end of a connection. Another process
// there is an error, unless init is another one than before by now.
func (p containerPaths) checkPeer(conn *net.UnixConn, initID proctree.ID) (isInit bool, err error) {
	peer, err := peerPID(conn)
	if err == nil && peer == initID.PID {
		return true, nil
	}
	if now, _, readErr := p.readInit(); err == nil && readErr == nil && now != initID {
		return false, nil
	}
	return false, fmt.Errorf("%w: process %d listens on the socket of its init", runtime.ErrTainted, peer)
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
