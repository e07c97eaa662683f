package runtimetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
)

// portCases are connections to what listens in a container.
func portCases(t *testing.T, s *suite) {
	for _, k := range []testCase{
		{"echo", portEcho}, {"IPv6", portIPv6}, {"half-close", portHalfClose}, {"greeting", portGreeting},
		{"refused", portRefused}, {"a program that never reads", portMute}, {"a client that never reads", portSource},
		{"limit", portLimit}, {"fence", portFence}, {"restart", portRestart}, {"closed", portClosed},
		{"exit", portExit}, {"canceled", portCanceled},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			k.run(t, s)
		})
	}
}

// freePort returns a port that nothing listens on here: a container may share the
// network of this machine. Until the test ends the kernel gives it to no other process
// that asks for any port: a socket is bound to it, which does not listen.
func freePort(t *testing.T) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Close(fd)) })
	require.NoError(t, syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1), "what listens may bind to it as well")
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	return name.(*syscall.SockaddrInet4).Port
}

// listening is a container that listens on a port, on its loopback interface only.
type listening struct {
	*container
	port int
}

// listen starts a container whose main process listens on an address and treats
// connections by kind.
func (s *suite) listen(t *testing.T, host, kind string) *listening {
	t.Helper()
	port := freePort(t)
	c := s.start(t, func(spec *runtime.Spec) {
		spec.Command = []string{spec.Command[0], "tcp", net.JoinHostPort(host, strconv.Itoa(port)), kind}
		spec.Ports = []int{port}
	})
	l := &listening{c, port}
	l.await(t)
	return l
}

// await waits until the main process listens.
func (l *listening) await(t *testing.T) {
	t.Helper()
	testenv.AwaitTrue(t, "the main process listens", func() bool {
		conn, err := l.rt.DialPort(t.Context(), l.id, l.port, 1)
		if err != nil {
			require.ErrorIs(t, err, runtime.ErrPortRefused)
			return false
		}
		require.NoError(t, conn.Close())
		return true
	})
}

// dial connects with a fence, until the test ends.
func (l *listening) dial(t *testing.T, fence int64) runtime.PortConn {
	t.Helper()
	conn, err := l.rt.DialPort(t.Context(), l.id, l.port, fence)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// requireEcho asserts that a connection carries bytes in both directions.
func requireEcho(t *testing.T, conn runtime.PortConn) {
	t.Helper()
	_, err := conn.Write([]byte("ping"))
	require.NoError(t, err)
	got := make([]byte, 4)
	_, err = io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, "ping", string(got))
}

// requireEnds asserts that reading ends.
func requireEnds(t *testing.T, conn runtime.PortConn) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { // ends with the connection
		_, err := io.Copy(io.Discard, conn)
		ended <- err
	}()
	return testenv.Await(t, ended, "the connection ends")
}

// requireFails asserts that reading ends, and not as if the program had ended it.
func requireFails(t *testing.T, conn runtime.PortConn) {
	t.Helper()
	require.Error(t, requireEnds(t, conn))
}

// Bytes arrive in both directions in order, more of them than any window holds.
func portEcho(t *testing.T, s *suite) {
	conn := s.listen(t, "127.0.0.1", "echo").dial(t, 1)
	requireEcho(t, conn)
	sent := make([]byte, 3<<20+7)
	rand.Read(sent) //nolint:errcheck // documented never to fail
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		if _, err := conn.Write(sent); err != nil {
			t.Errorf("Write: %v", err)
		}
		if err := conn.CloseWrite(); err != nil {
			t.Errorf("CloseWrite: %v", err)
		}
	})
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.True(t, bytes.Equal(sent, got), "%d bytes of %d", len(got), len(sent))
}

// A program that listens on the IPv6 loopback address only is reached too.
func portIPv6(t *testing.T, s *suite) {
	port := freePort(t)
	c := s.start(t, func(spec *runtime.Spec) { spec.Ports = []int{port} })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan runtime.Result, 1)
	go func() { // ends with the context
		result, _ := s.rt.Exec(ctx, c.id, c.command("tcp", net.JoinHostPort("::1", strconv.Itoa(port)), "echo"))
		ended <- result
	}()
	defer func() { cancel(); <-ended }()
	var conn runtime.PortConn
	unsupported := false
	testenv.AwaitTrue(t, "the program listens, or there is no IPv6", func() bool {
		select {
		case result := <-ended:
			ended <- result
			unsupported = isUnsupported(t, true, "IPv6: "+result.Stderr.String())
			return true
		default:
		}
		var err error
		conn, err = s.rt.DialPort(t.Context(), c.id, port, 1)
		return err == nil
	})
	if !unsupported {
		requireEcho(t, conn)
		require.NoError(t, conn.Close())
	}
}

// The client ends its direction, and the program answers after that.
func portHalfClose(t *testing.T, s *suite) {
	conn := s.listen(t, "127.0.0.1", "count").dial(t, 1)
	_, err := conn.Write(make([]byte, 200<<10))
	require.NoError(t, err)
	require.NoError(t, conn.CloseWrite())
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "204800\n", string(got))
}

// The program ends its direction, and the client writes after that.
func portGreeting(t *testing.T, s *suite) {
	l := s.listen(t, "127.0.0.1", "greet")
	conn := l.dial(t, 1)
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "hello", string(got))
	_, err = conn.Write(make([]byte, 300<<10))
	require.NoError(t, err)
	require.NoError(t, conn.CloseWrite())
	require.Equal(t, "307200", l.mustExec(t, "await", l.path(t, "/data/counted")))
}

// Nothing listens on the port, and what is no port is refused as well.
func portRefused(t *testing.T, s *suite) {
	free := freePort(t)
	c := s.start(t, func(spec *runtime.Spec) { spec.Ports = []int{free} })
	for _, port := range []int{free, 0, -1, 65536, 1 << 40} {
		_, err := s.rt.DialPort(t.Context(), c.id, port, 1)
		require.ErrorIs(t, err, runtime.ErrPortRefused, "port %d", port)
	}
	_, err := s.rt.DialPort(t.Context(), NewID(), free, 1)
	require.ErrorIs(t, err, runtime.ErrNotFound)
	if s.Limitations.SharedHost {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		_, err = s.rt.DialPort(t.Context(), c.id, l.Addr().(*net.TCPAddr).Port, 1)
		require.ErrorIs(t, err, runtime.ErrPortRefused, "one of the machine that the spec does not list")
	}
}

// maxBuffered is more than a connection holds of what its reader has not read: two
// windows, and the buffers of the kernel.
const maxBuffered = 2 << 20

// A program that never reads holds back the writer, and no other connection.
func portMute(t *testing.T, s *suite) {
	l := s.listen(t, "127.0.0.1", "mute")
	stuck, other := l.dial(t, 1), s.listen(t, "127.0.0.1", "echo").dial(t, 1)
	written := make(chan int, 1)
	go func() { // ends when the connection is closed
		n, _ := stuck.Write(make([]byte, 64<<20))
		written <- n
	}()
	for range 20 {
		requireEcho(t, other)
	}
	select {
	case n := <-written:
		t.Fatalf("%d bytes were written that nothing reads", n)
	case <-time.After(300 * time.Millisecond):
	}
	l.mustExec(t, "echo", "commands are not held back")
	require.NoError(t, stuck.Close())
	require.Less(t, testenv.Await(t, written, "Close ends Write"), maxBuffered)
}

// A client that never reads holds back the program, and no other connection.
func portSource(t *testing.T, s *suite) {
	l := s.listen(t, "127.0.0.1", "source")
	stuck, other := l.dial(t, 1), l.dial(t, 1)
	_, err := io.CopyN(io.Discard, other, 32<<20)
	require.NoError(t, err)
	first := make([]byte, 1)
	_, err = io.ReadFull(stuck, first)
	require.NoError(t, err)
	l.mustExec(t, "echo", "commands are not held back")
}

// At most MaxPortConnections are open at once; one that is closed makes room.
func portLimit(t *testing.T, s *suite) {
	l := s.listen(t, "127.0.0.1", "echo")
	var open []runtime.PortConn
	for range runtime.MaxPortConnections {
		conn := l.dialWhenRoom(t)
		open = append(open, conn)
		t.Cleanup(func() { require.NoError(t, conn.Close()) })
	}
	for range 44 {
		_, err := l.rt.DialPort(t.Context(), l.id, l.port, 1)
		require.ErrorIs(t, err, runtime.ErrTooManyConnections)
	}
	for _, conn := range open {
		requireEcho(t, conn)
	}
	require.NoError(t, open[0].Close())
	require.NoError(t, l.dialWhenRoom(t).Close(), "there is room again")
	require.NoError(t, l.rt.ClosePorts(t.Context(), l.id, 2))
	for _, conn := range open[1:] {
		requireFails(t, conn)
	}
}

// dialWhenRoom connects as soon as there is room: a connection that was closed may
// still count for a moment.
func (l *listening) dialWhenRoom(t *testing.T) (conn runtime.PortConn) {
	t.Helper()
	testenv.AwaitTrue(t, "there is room", func() bool {
		var err error
		conn, err = l.rt.DialPort(t.Context(), l.id, l.port, 1)
		require.True(t, err == nil || errors.Is(err, runtime.ErrTooManyConnections), "DialPort: %v", err)
		return err == nil
	})
	return conn
}
