package transport

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// socketMode lets the owner and the group connect. The permissions of the
	// directory limit both further.
	socketMode = 0o660
	// maxSocketPath is what the address of a socket holds, without the suffix of the
	// name under which it is made.
	maxSocketPath = 107 - len(newSuffix)
	newSuffix     = ".new"
	lockSuffix    = ".lock"
	// dialTimeout bounds the check whether a socket has a server.
	dialTimeout = time.Second
)

// ErrSocketInUse reports that another server listens on the socket.
var ErrSocketInUse = errors.New("another server listens on it")

// UnixListener accepts connections of users of this machine.
type UnixListener struct {
	*net.UnixListener
	path string
	lock *os.File
}

// ListenUnix listens on a Unix socket. One that an earlier server has left is
// replaced; a socket with a server, or a file of another kind, is left alone and is
// an error. A lock next to the socket decides between two servers that start at once;
// the kernel releases it when its server ends, however it ends.
func ListenUnix(path string) (_ *UnixListener, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("listen on %s: %w", path, err)
		}
	}()
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the path is longer than %d bytes", maxSocketPath)
	}
	if err := checkDirectory(filepath.Dir(path)); err != nil {
		return nil, err
	}
	lock, err := acquireLock(path + lockSuffix)
	if err != nil {
		return nil, err
	}
	listener, err := replaceSocket(path)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &UnixListener{UnixListener: listener, path: path, lock: lock}, nil
}

// checkDirectory refuses a directory in which another user could put a socket of their
// own, to which clients would then send their keys.
func checkDirectory(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf("every user can write to %s: choose a directory that only the server can write to", dir)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid != 0 && owner.Uid != uint32(os.Geteuid()) { //nolint:gosec // a uid has 32 bits
		return fmt.Errorf("%s belongs to another user: choose a directory of the server's user or of root", dir)
	}
	return nil
}

// acquireLock holds a lock until the returned file is closed. The file stays: to
// remove it would let two servers lock two files of one name.
func acquireLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrSocketInUse
		}
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// replaceSocket listens on a socket with the right mode from its first moment: it is
// made under another name. Only the holder of the lock calls it.
func replaceSocket(path string) (*net.UnixListener, error) {
	if err := checkUnused(path); err != nil {
		return nil, err
	}
	temporary := path + newSuffix
	if err := checkUnused(temporary); err != nil {
		return nil, err
	}
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(temporary, socketMode), os.Rename(temporary, path)); err != nil {
		return nil, errors.Join(err, listener.Close(), os.Remove(temporary))
	}
	return listener, nil
}

// checkUnused returns nil for no file, and for a socket without a server.
func checkUnused(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there, and is not a socket", path)
	}
	conn, err := net.DialTimeout("unix", path, dialTimeout)
	if err == nil {
		return errors.Join(ErrSocketInUse, conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("check whether the socket is in use: %w", err)
	}
	return nil
}

// peerConn is a connection whose peer is known.
type peerConn struct {
	*net.UnixConn
	uid uint32
}

// Accept returns the next connection whose peer is known. One whose peer is not is
// closed: it must not pass for a connection without a user.
func (l *UnixListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, err := peerOf(conn)
		if err != nil {
			conn.Close() //nolint:errcheck // nothing was sent
			continue
		}
		return &peerConn{UnixConn: conn, uid: uid}, nil
	}
}

// peerOf returns the user who connected, as the kernel recorded it at that moment.
func peerOf(conn *net.UnixConn) (uid uint32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var credential *syscall.Ucred
	var optErr error
	if err := raw.Control(func(fd uintptr) {
		credential, optErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if optErr != nil {
		return 0, optErr
	}
	return credential.Uid, nil
}

// Close stops listening and removes the socket.
func (l *UnixListener) Close() error {
	err := l.UnixListener.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil // an http.Server closes its listeners more than once
	}
	return errors.Join(err, os.Remove(l.path), l.lock.Close())
}

// ConnContext returns a function for http.Server: withUID adds the user at the other
// end of a Unix socket, and next, which may be nil, is for other connections.
func ConnContext(withUID func(context.Context, uint32) context.Context, next func(context.Context, net.Conn) context.Context) func(context.Context, net.Conn) context.Context {
	return func(ctx context.Context, conn net.Conn) context.Context {
		if peer, ok := below[*peerConn](conn); ok {
			return withUID(ctx, peer.uid)
		}
		if next != nil {
			return next(ctx, conn)
		}
		return ctx
	}
}
