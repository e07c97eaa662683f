package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// backlog is how many connections may wait to be accepted.
const backlog = 128

// defaultSocket returns where init listens and where a bridge connects. If this
// program has a user of its own, the socket is in a directory that no one else
// can reach. Otherwise the tenant has the same user and could remove or replace
// any file, but it cannot do either to an abstract socket while init listens.
// Init starts to listen before it starts any of the tenant's processes.
func defaultSocket() string {
	if os.Geteuid() == shim.UID {
		return shim.SocketPath
	}
	return shim.AbstractSocket
}

// isAbstract reports whether an address is not a file path.
func isAbstract(address string) bool { return strings.HasPrefix(address, "@") }

// shortPath opens the directory of a socket and returns a path through its
// descriptor, because an address holds only 107 bytes.
func shortPath(path string) (short string, dir *os.File, err error) {
	dir, err = os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return "", nil, err
	}
	return "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(path), dir, nil
}

// listen opens the socket. If it is a file, only this user can reach it.
func listen(path string) (int, error) {
	if isAbstract(path) {
		fd, err := bind(path, path)
		if err != nil {
			return -1, err
		}
		return fd, unix.Listen(fd, backlog)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return -1, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return -1, err
	}
	short, dir, err := shortPath(path)
	if err != nil {
		return -1, err
	}
	defer dir.Close()
	fd, err := bind(short, path)
	if err != nil {
		return -1, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return -1, err
	}
	return fd, unix.Listen(fd, backlog)
}

// bind creates a socket with an address. name is the address in error messages.
func bind(address, name string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: address}); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("bind %s: %w", name, err)
	}
	return fd, nil
}

// connectTo connects to init's socket and verifies that init listens there: the
// credentials are those of the process that called listen.
func connectTo(path string, initPID int) (*os.File, error) {
	fd, err := dial(path)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err == nil && int(peer.Pid) != initPID {
		err = fmt.Errorf("process %d listens there, want %d", peer.Pid, initPID)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), "init"), nil
}

// dial connects to a socket of any process, and returns a descriptor that
// does not block.
func dial(path string) (int, error) {
	short := path
	if !isAbstract(path) {
		name, dir, err := shortPath(path)
		if err != nil {
			return -1, err
		}
		defer dir.Close()
		short = name
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for err = unix.EINTR; err == unix.EINTR; { //nolint:errorlint // an errno
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: short})
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// accept serves every connection until the socket is unusable.
func (s *supervisor) accept(listener int) {
	var pending unauthenticated
	for {
		fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		switch {
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED):
			continue
		case errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM):
			<-time.After(10 * time.Millisecond) // temporary: it ends when sessions end
			continue
		case err != nil:
			logError("accept", err)
			return
		}
		c := newSession(s, fd)
		if c.isInside && !s.config.HostProcess {
			c.socket.Close()
			continue
		}
		pending.add(c)
		go c.serve(func() { pending.remove(c) }) // ends with the connection
	}
}
