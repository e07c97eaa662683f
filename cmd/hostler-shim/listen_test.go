package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// newUnauthenticated returns a connection that is not authenticated, and its
// other end.
func newUnauthenticated(t *testing.T) (*session, *os.File) {
	t.Helper()
	ours, theirs, err := socketPair()
	require.NoError(t, err)
	require.NoError(t, unix.SetNonblock(theirs, true))
	c := newSession(nil, theirs)
	t.Cleanup(func() { closeAll(ours, c.socket) })
	return c, ours
}

// wasClosed reports whether the other end has closed the connection.
func wasClosed(t *testing.T, end *os.File) bool {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(end.Fd()), Events: unix.POLLIN}}
	_, err := unix.Poll(fds, 0)
	for errors.Is(err, unix.EINTR) { // a child of another test has ended
		_, err = unix.Poll(fds, 0)
	}
	require.NoError(t, err)
	return fds[0].Revents&unix.POLLHUP != 0
}

// A new connection is always accepted. The oldest unauthenticated one is closed
// for it, and an authenticated one never is.
func TestUnauthenticatedLimit(t *testing.T) {
	t.Parallel()
	var all unauthenticated
	proven, provenEnd := newUnauthenticated(t)
	all.add(proven)
	all.remove(proven)
	all.remove(proven)
	var ends []*os.File
	for range maxUnauthenticated + 3 {
		c, end := newUnauthenticated(t)
		all.add(c)
		ends = append(ends, end)
	}
	require.Len(t, all.sessions, maxUnauthenticated)
	for i, end := range ends {
		require.Equal(t, i < 3, wasClosed(t, end), "connection %d", i)
	}
	require.False(t, wasClosed(t, provenEnd))
}

// A process of the container is distinguished from the engine's, whose parent
// is outside, like that of process 1.
func TestPeerInsideContainer(t *testing.T) {
	t.Parallel()
	id, inside := peerProcess(os.Getpid())
	require.True(t, inside)
	require.Equal(t, os.Getpid(), id.PID)
	id, inside = peerProcess(1)
	require.False(t, inside)
	require.Equal(t, 1, id.PID)
	_, inside = peerProcess(0)
	require.False(t, inside, "PID unknown")
	gone := exec.Command("/proc/self/exe", "-test.run", "^$")
	require.NoError(t, gone.Run())
	_, inside = peerProcess(gone.Process.Pid)
	require.True(t, inside, "it has passed on its connection")
	c, _ := newUnauthenticated(t)
	require.True(t, c.isInside, "this process")
}

// No process can bind an address at which init listens, whether it is a file or
// abstract, and a bridge connects only to init.
func TestListenAddressIsExclusive(t *testing.T) {
	t.Parallel()
	for _, address := range []string{filepath.Join(t.TempDir(), "sock"), "@" + filepath.Base(t.TempDir()) + t.Name()} {
		fd, err := listen(address)
		require.NoError(t, err)
		defer unix.Close(fd)
		_, err = net.Listen("unix", address)
		require.ErrorIs(t, err, unix.EADDRINUSE, address)
		socket, err := connectTo(address, os.Getpid())
		require.NoError(t, err, address)
		require.NoError(t, socket.Close())
		_, err = connectTo(address, os.Getpid()+1)
		require.ErrorContains(t, err, "listens there, want", address)
		if isAbstract(address) {
			_, err = listen(address)
			require.ErrorIs(t, err, unix.EADDRINUSE)
		}
	}
}
