package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	backlog = 16
	// maxStrangers bounds connections that have not shown the token: anybody
	// who gets at the socket may open one.
	maxStrangers = 16
)

// shortPath opens the folder of a socket and names the socket by way of the
// descriptor: an address holds 107 bytes only.
func shortPath(path string) (short string, dir *os.File, err error) {
	dir, err = os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return "", nil, err
	}
	return "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(path), dir, nil
}

// listen opens the socket, which nobody but this user can reach.
func listen(path string) (int, error) {
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
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: short}); err != nil {
		return -1, fmt.Errorf("bind %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return -1, err
	}
	return fd, unix.Listen(fd, backlog)
}

// connectTo connects to init's socket and makes sure that init is who listens:
// the credentials are those of the process that called listen.
func connectTo(path string, init int) (*os.File, error) {
	short, dir, err := shortPath(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: short}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err == nil && int(peer.Pid) != init {
		err = fmt.Errorf("process %d listens there instead of %d", peer.Pid, init)
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), "init"), nil
}

// accept serves every connection until the socket is unusable.
func (s *supervisor) accept(listener int) {
	strangers := make(chan struct{}, maxStrangers)
	for {
		fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		switch {
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED):
			continue
		case errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM):
			<-time.After(10 * time.Millisecond) // it passes when sessions end
			continue
		case err != nil:
			complain("accept", err)
			return
		}
		select {
		case strangers <- struct{}{}:
		default:
			unix.Close(fd)
			continue
		}
		conn := newSession(s, fd)
		go conn.serve(func() { <-strangers }) // ends with the connection
	}
}
