package main

import (
	"errors"
	"os"

	"github.com/hostler/hostler/runtime/shim/proctree"
	"golang.org/x/sys/unix"
)

// askPeer is the process that has opened a connection. It may exit at any time, and
// another process may get its PID: what is read by the PID is of this process only
// if isAlive reports true after that.
type askPeer struct {
	id    proctree.ID
	pidfd *os.File // nil where the kernel has none for a connection
}

// peerOf returns the process at the other end of a connection. Without its pidfd, it
// is the one that has the PID now. It returns an error if that has exited, or is of
// another container: the kernel has no number for it here.
func peerOf(socket int, pidfdOf func(socket int) (int, error)) (p askPeer, err error) {
	fd, err := pidfdOf(socket)
	if err != nil && !errors.Is(err, unix.ENOPROTOOPT) { // which Linux before 6.5 and gVisor return
		return askPeer{}, err
	}
	if err == nil {
		p.pidfd = os.NewFile(uintptr(fd), "peer")
	}
	credentials, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err == nil && credentials.Pid <= 0 {
		err = errNotInContainer
	}
	if err == nil {
		var found proctree.Process
		found, err = proctree.Read(int(credentials.Pid))
		p.id = found.ID
	}
	if err == nil && !p.isAlive() {
		err = errExited
	}
	if err != nil {
		p.close()
		return askPeer{}, err
	}
	return p, nil
}

// peerPidfd returns a pidfd of the process that has opened a connection.
func peerPidfd(socket int) (int, error) {
	return unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
}

var errExited = errors.New("process has exited")

// isAlive reports whether the process has not exited. So its PID was its own until
// now.
func (p askPeer) isAlive() bool {
	if p.pidfd == nil {
		return p.id.IsAlive()
	}
	alive := false
	raw, err := p.pidfd.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			alive = isRunning(int32(fd), unix.Poll)
		})
	}
	return err == nil && alive
}

// isRunning reports whether the process of a pidfd has not exited, which makes it
// readable.
func isRunning(pidfd int32, poll func(fds []unix.PollFd, timeout int) (int, error)) bool {
	fds := []unix.PollFd{{Fd: pidfd, Events: unix.POLLIN}}
	n, err := poll(fds, 0)
	for errors.Is(err, unix.EINTR) { // a signal of another process that exited
		n, err = poll(fds, 0)
	}
	return err == nil && n == 0
}

func (p askPeer) close() {
	if p.pidfd != nil {
		p.pidfd.Close()
	}
}

// originOf returns what the process at the other end of a connection belongs to.
func (p askPeer) originOf(origin func(pid int) (origin, error)) (from origin, err error) {
	if from, err = origin(p.id.PID); err == nil && !p.isAlive() {
		err = errExited
	}
	return from, err
}
