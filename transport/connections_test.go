package transport_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/pipetest"
	"github.com/hostler/hostler/transport"
)

// The bounds follow the limits of the process.
func TestLimitsFor(t *testing.T) {
	for _, test := range []struct {
		descriptors uint64
		memory      int64
		want        int
	}{
		{1 << 20, math.MaxInt64, 16384}, {math.MaxUint64, math.MaxInt64, 16384}, {1024, math.MaxInt64, 512},
		{1 << 20, 512 << 20, 1024}, {256, 512 << 20, 128}, {16, 1 << 20, 64},
	} {
		got := transport.LimitsFor(test.descriptors, test.memory, nil)
		require.Equal(t, transport.Limits{Total: test.want, PerAddress: test.want / 4}, got)
	}
}

// from has connections come from an address.
type from struct {
	net.Conn
	address net.Addr
}

func (c from) RemoteAddr() net.Addr { return c.address }

type fromListener struct{ conns chan net.Conn }

func (l fromListener) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (fromListener) Close() error   { return nil }
func (fromListener) Addr() net.Addr { return nil }

// An address has a bound of its own, in which the oldest connection makes room. A
// network of IPv6 is one address, loopback, a Unix socket and trusted proxies are none.
func TestConnectionsOfAnAddress(t *testing.T) {
	limits := transport.Limits{Total: 100, PerAddress: 2, Trusted: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	for name, test := range map[string]struct {
		addresses []net.Addr
		open      int
	}{
		"one":     {[]net.Addr{tcp("192.0.2.1"), tcp("192.0.2.1"), tcp("192.0.2.1")}, 2},
		"several": {[]net.Addr{tcp("192.0.2.1"), tcp("192.0.2.1"), tcp("192.0.2.2"), tcp("192.0.2.3")}, 4},
		"mapped":  {[]net.Addr{tcp("::ffff:192.0.2.1"), tcp("192.0.2.1"), tcp("192.0.2.1")}, 2},
		"/64":     {[]net.Addr{tcp("2001:db8::1"), tcp("2001:db8::2"), tcp("2001:db8::3"), tcp("2001:db8:0:1::1")}, 3},
		"::1":     {[]net.Addr{tcp("::1"), tcp("::1"), tcp("::1")}, 3},
		"unix":    {[]net.Addr{&net.UnixAddr{}, &net.UnixAddr{}, &net.UnixAddr{}}, 3},
		"proxy":   {[]net.Addr{tcp("10.1.2.3"), tcp("10.1.2.3"), tcp("10.1.2.3")}, 3},
		"other":   {[]net.Addr{tcp("10.2.2.3"), tcp("10.2.2.3"), tcp("10.2.2.3")}, 2},
	} {
		connections := transport.NewConnections(limits)
		below := fromListener{make(chan net.Conn, len(test.addresses))}
		l := connections.Listen(below)
		var clients []net.Conn
		for _, address := range test.addresses {
			client, server := net.Pipe()
			clients = append(clients, client)
			below.conns <- from{server, address}
			_, err := l.Accept()
			require.NoError(t, err)
		}
		open, _, closed := connections.Counts()
		require.Equal(t, test.open, open, name)
		require.Equal(t, uint64(len(test.addresses)-test.open), closed, name)
		if closed > 0 {
			_, err := clients[0].Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF, "%s: the oldest makes room", name)
		}
	}
}

// A bounded connection can be reset, so that its client does not take what it got for
// complete.
func TestBoundedConnectionIsReset(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := transport.NewConnections(transport.Limits{Total: 1, PerAddress: 1}).Listen(tcp)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	server, err := l.Accept()
	require.NoError(t, err)
	require.NoError(t, server.(interface{ SetLinger(int) error }).SetLinger(0))
	require.NoError(t, server.Close())
	_, err = client.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

type authenticatedKey struct{}

// boundedServer serves with bounds. Requests with the header Key are authenticated, and
// the path /wait is answered when the test ends.
func boundedServer(t *testing.T, total int) (dial func() net.Conn, connections *transport.Connections) {
	t.Helper()
	connections = transport.NewConnections(transport.Limits{Total: total, PerAddress: total})
	l := pipetest.Listen(1)
	server := &http.Server{ //nolint:gosec // its timeouts are not what is tested
		ConnState: connections.ConnState,
		ConnContext: connections.ConnContext(func(ctx context.Context, authenticated func()) context.Context {
			return context.WithValue(ctx, authenticatedKey{}, authenticated)
		}, nil),
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Key") != "" {
				r.Context().Value(authenticatedKey{}).(func())() //nolint:forcetypeassert // as above
			}
			if r.URL.Path == "/wait" {
				<-r.Context().Done()
			}
		}),
	}
	go server.Serve(connections.Listen(l)) //nolint:errcheck // it is closed
	t.Cleanup(func() { _ = server.Close() })
	return func() net.Conn {
		conn, err := l.Dial(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		synctest.Wait()
		return conn
	}, connections
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
	synctest.Wait()
}

func answered(t *testing.T, conn net.Conn) {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	synctest.Wait()
}

func isEnded(conn net.Conn) bool {
	synctest.Wait()
	_ = conn.SetReadDeadline(time.Now())
	_, err := conn.Read(make([]byte, 1))
	_ = conn.SetReadDeadline(time.Time{})
	return err == io.EOF //nolint:errorlint // a pipe returns it
}

const (
	withKey    = "GET / HTTP/1.1\r\nHost: x\r\nKey: x\r\n\r\n"
	withoutKey = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	waiting    = "GET /wait HTTP/1.1\r\nHost: x\r\nKey: x\r\n\r\n"
)

// Connections without an authenticated request never take the place of others, idle
// ones make room for new ones, and those in use do not.
func TestConnectionsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial, connections := boundedServer(t, 3)
		tenant := dial()
		send(t, tenant, withKey)
		answered(t, tenant)
		for range 50 {
			send(t, dial(), "GET / HTTP/1.1\r\nHost: x\r\nX: ")
		}
		open, bound, closed := connections.Counts()
		require.Equal(t, []int{3, 3, 48}, []int{open, bound, int(closed)}) //nolint:gosec // it is small
		send(t, tenant, withKey)
		answered(t, tenant)

		busy := []net.Conn{dial(), dial()}
		for _, conn := range busy {
			send(t, conn, waiting)
		}
		last := dial()
		require.True(t, isEnded(tenant), "it was idle")
		send(t, last, waiting)
		require.True(t, isEnded(dial()), "all are in use")
		for _, conn := range append(busy, last) {
			require.False(t, isEnded(conn))
		}
	})
}

// A connection without an authenticated request may be idle for ten seconds, one that
// has had one for longer.
func TestIdleStrangersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial, connections := boundedServer(t, 10)
		stranger, tenant := dial(), dial()
		send(t, stranger, withoutKey)
		answered(t, stranger)
		send(t, tenant, withKey)
		answered(t, tenant)
		<-time.After(9 * time.Second)
		require.False(t, isEnded(stranger))
		send(t, stranger, withoutKey) // the time begins again
		answered(t, stranger)
		<-time.After(9 * time.Second)
		require.False(t, isEnded(stranger))
		send(t, stranger, "GET / HTTP/1.1\r\nHost: x\r\nX: ")
		<-time.After(time.Second + time.Millisecond)
		require.True(t, isEnded(stranger))
		<-time.After(time.Minute)
		require.False(t, isEnded(tenant))
		open, _, _ := connections.Counts()
		require.Equal(t, 1, open)
	})
}

// What a client sends before its first request is bounded, whatever it is: a handshake
// of TLS may have a certificate of any length.
func TestUnreadIsBounded(t *testing.T) {
	connections := transport.NewConnections(transport.Limits{Total: 2, PerAddress: 2})
	below := fromListener{make(chan net.Conn, 1)}
	client, server := net.Pipe()
	below.conns <- from{server, &net.UnixAddr{}}
	conn, err := connections.Listen(below).Accept()
	require.NoError(t, err)
	go func() {
		fmt.Fprint(client, string(make([]byte, 1<<20))) //nolint:errcheck // it is cut off
		client.Close()                                  //nolint:errcheck // of a pipe
	}()
	n, err := io.Copy(io.Discard, conn)
	require.Error(t, err)
	require.LessOrEqual(t, n, int64(64<<10))
	require.NoError(t, conn.Close())
}
