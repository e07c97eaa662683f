package main

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
)

// fullListener listens on a port and accepts nothing: the next connection waits until
// something else listens there, and would be made to that.
func fullListener(t *testing.T) (port int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, unix.Listen(fd, 0))
	name, err := unix.Getsockname(fd)
	require.NoError(t, err)
	port = name.(*unix.SockaddrInet4).Port
	socket, err := dialPort(port, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	return port
}

// A connection that is not made yet when its claim ends is not made later: whatever
// listens then is another tenant's.
func TestPendingConnectionEndsWithItsClaim(t *testing.T) {
	port, p := fullListener(t), newTestPorts()
	c, err := p.begin(4)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := dialPort(port, c.closed)
		ended <- err
	}()
	synSent := fmt.Sprintf(":%04X 02 ", port) // the remote port, and the state of the socket
	testenv.AwaitTrue(t, "the connection is pending", func() bool {
		sockets, err := os.ReadFile("/proc/net/tcp")
		require.NoError(t, err)
		require.Empty(t, ended, "the listener is not full")
		return strings.Contains(string(sockets), synSent)
	})
	require.NoError(t, p.closeBelow(5))
	require.ErrorIs(t, <-ended, runtime.ErrStaleFence, "it is not the timeout that ends it")
}

// A connection whose claim ended just before it was made is closed.
func TestConnectionOfAnEndedClaim(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	p := newTestPorts()
	c, err := p.begin(4)
	require.NoError(t, err)
	require.NoError(t, p.closeBelow(5))
	_, err = dialPort(l.Addr().(*net.TCPAddr).Port, c.closed)
	require.ErrorIs(t, err, runtime.ErrStaleFence)
}
