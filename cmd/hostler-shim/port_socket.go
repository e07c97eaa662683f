package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hostler/hostler/runtime"
	"golang.org/x/sys/unix"
)

// portSocketBuffer bounds what the kernel keeps of a connection to a port, in each
// direction, in bytes. It counts as the container's memory.
const portSocketBuffer = 64 << 10

// loopbacks are the addresses of this machine that a connection is tried with, in
// this order.
var loopbacks = []struct {
	family  int
	address func(port int) unix.Sockaddr
}{
	{unix.AF_INET, func(port int) unix.Sockaddr {
		return &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
	}},
	{unix.AF_INET6, func(port int) unix.Sockaddr {
		return &unix.SockaddrInet6{Port: port, Addr: [16]byte{15: 1}}
	}},
}

// dialPort connects to a port of the loopback interface. Only what listens in the
// container can be reached: no name is resolved, and no other address is tried. It
// fails once over is closed: what listens later may be another tenant's.
func dialPort(port int, over <-chan struct{}) (*os.File, error) {
	var failed error
	for _, to := range loopbacks {
		socket, err := dialTCP(to.family, to.address(port), over)
		if isClosed(over) {
			closeAll(socket)
			return nil, errPortClosed
		}
		if err == nil {
			return socket, nil
		}
		if failed == nil || !isNotListening(err) {
			failed = err // the first one, unless a later one shows more
		}
	}
	return nil, fmt.Errorf("%w: port %d: %w", runtime.ErrPortRefused, port, failed)
}

// isClosed reports whether a channel is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// isNotListening reports whether nothing listens at an address, or this kernel has
// no addresses of that family.
func isNotListening(err error) bool {
	for _, known := range []error{unix.ECONNREFUSED, unix.EAFNOSUPPORT, unix.EADDRNOTAVAIL, unix.ENETUNREACH} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// dialTCP connects to one address, unless over is closed before it has.
func dialTCP(family int, to unix.Sockaddr, over <-chan struct{}) (*os.File, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP)
	if err != nil {
		return nil, err
	}
	for _, option := range []struct{ level, name, value int }{
		{unix.SOL_SOCKET, unix.SO_SNDBUF, portSocketBuffer},
		{unix.SOL_SOCKET, unix.SO_RCVBUF, portSocketBuffer},
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1}, // the other end has put together what belongs together
	} {
		_ = unix.SetsockoptInt(fd, option.level, option.name, option.value) // it works without, too
	}
	err = unix.Connect(fd, to)
	inProgress := errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EINTR)
	if err != nil && !inProgress {
		unix.Close(fd)
		return nil, err
	}
	socket := os.NewFile(uintptr(fd), "port")
	if inProgress {
		err = awaitConnected(socket, over)
	}
	if err != nil {
		socket.Close()
		return nil, err
	}
	return socket, nil
}

// awaitConnected waits until a socket is connected, and returns the error of a
// connection that has failed.
func awaitConnected(socket *os.File, over <-chan struct{}) error {
	if err := socket.SetWriteDeadline(time.Now().Add(dialPortTimeout)); err != nil {
		return err
	}
	connected, stopped := make(chan struct{}), make(chan struct{})
	go func() { // ends with the wait
		defer close(stopped)
		select {
		case <-over:
			_ = socket.SetWriteDeadline(time.Unix(1, 0)) // interrupts the wait
		case <-connected:
		}
	}()
	err := waitConnected(socket)
	close(connected)
	<-stopped
	return errors.Join(err, socket.SetWriteDeadline(time.Time{}))
}

// waitConnected is awaitConnected until the deadline for writing.
func waitConnected(socket *os.File) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		var number int
		number, failed = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if failed == nil && number != 0 {
			failed = unix.Errno(number)
		}
		if failed != nil {
			return true
		}
		_, notYet := unix.Getpeername(int(fd))
		return notYet == nil
	})
	return errors.Join(err, failed)
}

// closeWrite ends what is sent. The other end may have closed the connection.
func closeWrite(socket *os.File) error {
	var failed error
	err := control(socket, func(fd int) { failed = unix.Shutdown(fd, unix.SHUT_WR) })
	if errors.Is(failed, unix.ENOTCONN) {
		failed = nil
	}
	return errors.Join(err, failed)
}

// resetOnClose has a socket reset its connection when it is closed: the other end
// gets an error in place of an end, and the kernel keeps nothing of it.
func resetOnClose(socket *os.File) {
	_ = control(socket, func(fd int) {
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	}) // it is closed already
}

// control calls f with the descriptor of a socket that is open.
func control(socket *os.File, f func(fd int)) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { f(int(fd)) })
}
