package main

import (
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// newTestPorts returns ports that admit fences as a supervisor does.
func newTestPorts() *ports {
	s := &supervisor{admitted: atomic.Int64{}}
	return newPorts(s.admit)
}

// Connections are closed by a greater fence only, and none with a smaller one begins
// after that.
func TestPortFences(t *testing.T) {
	p := newTestPorts()
	earlier, err := p.begin(4)
	require.NoError(t, err)
	current, err := p.begin(5)
	require.NoError(t, err)
	_, err = p.begin(4)
	require.ErrorIs(t, err, runtime.ErrStaleFence)
	require.ErrorIs(t, p.closeBelow(4), runtime.ErrStaleFence)
	require.False(t, isClosed(earlier.closed))
	require.NoError(t, p.closeBelow(5))
	require.True(t, isClosed(earlier.closed))
	require.False(t, isClosed(current.closed))
	require.NoError(t, p.closeBelow(6))
	require.True(t, isClosed(current.closed))
	_, err = p.begin(5)
	require.ErrorIs(t, err, runtime.ErrStaleFence)
	last, err := p.begin(6)
	require.NoError(t, err)
	p.closeAll()
	require.True(t, isClosed(last.closed))
	p.end(last)
	require.Empty(t, p.open)
}

// Connections are bounded before they are opened.
func TestPortLimit(t *testing.T) {
	p := newTestPorts()
	var all []*portConn
	for range runtime.MaxPortConnections {
		c, err := p.begin(1)
		require.NoError(t, err)
		all = append(all, c)
	}
	_, err := p.begin(1)
	require.ErrorIs(t, err, runtime.ErrTooManyConnections)
	p.end(all[0])
	_, err = p.begin(1)
	require.NoError(t, err)
}

// A port is dialled on the loopback addresses, and a closed connection is reset.
func TestDialPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	socket, err := dialPort(port, nil)
	require.NoError(t, err)
	conn, err := l.Accept()
	require.NoError(t, err)
	defer conn.Close()
	_, err = socket.WriteString("x")
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.NoError(t, err)
	resetOnClose(socket)
	require.NoError(t, socket.Close())
	_, err = conn.Read(make([]byte, 1))
	require.ErrorContains(t, err, "reset")
	require.NoError(t, l.Close())
	_, err = dialPort(port, nil)
	require.ErrorIs(t, err, runtime.ErrPortRefused)
}
