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
	"strings"
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
		{1 << 20, 512 << 20, 682}, {256, 512 << 20, 128}, {1024, 1 << 20, 64}, {64, 1 << 20, 32},
	} {
		got, err := transport.LimitsFor(test.descriptors, test.memory, nil)
		require.NoError(t, err)
		require.Equal(t, transport.Limits{Total: test.want, PerAddress: test.want / 4, PerActor: test.want / 4 * 3}, got)
	}
	_, err := transport.LimitsFor(63, math.MaxInt64, nil)
	require.ErrorContains(t, err, "the limit of open files is 63, and the server needs at least 64")
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

// Beyond the bound of all, the network with the most strangers makes room: who has many
// addresses keeps out only those of its own networks.
func TestNetworksMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connections := transport.NewConnections(transport.Limits{Total: 6, PerAddress: 4})
		below := fromListener{make(chan net.Conn, 1)}
		l := connections.Listen(below)
		dial := func(ip string) net.Conn {
			client, server := net.Pipe()
			below.conns <- from{server, &net.TCPAddr{IP: net.ParseIP(ip), Port: 1}}
			_, err := l.Accept()
			require.NoError(t, err)
			return client
		}
		others := []net.Conn{dial("192.0.2.1"), dial("2001:db8:1::1"), dial("2001:db8:0:100::1")} // the last in the attacker's /48
		for i := range 50 {
			dial(fmt.Sprintf("2001:db8:0:%x::1", i)) // each a /64 of its own, in one /56
		}
		for i, conn := range others {
			require.False(t, isEnded(conn), i)
		}
		for i := range 3 { // those of the /48
			dial(fmt.Sprintf("192.0.2.%d", 2+i))
			require.False(t, isEnded(others[0]))
		}
		for i := range 2 { // each has one: the oldest makes room
			dial(fmt.Sprintf("192.0.2.%d", 5+i))
			require.True(t, isEnded(others[i]))
		}
	})
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

// strangers has connections come from an address with a bound of its own.
type strangers struct{ net.Listener }

func (l strangers) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return from{conn, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}}, err
}

// boundedServer serves with bounds. Requests with the header Key are authenticated as
// that actor, and the path /wait is answered when the test ends.
func boundedServer(t *testing.T, limits transport.Limits) (dial func() net.Conn, connections *transport.Connections) {
	t.Helper()
	connections = transport.NewConnections(limits)
	l := pipetest.Listen(1)
	server := &http.Server{ //nolint:gosec // its timeouts are not what is tested
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if key := r.Header.Get("Key"); key != "" && !r.Context().Value(authenticatedKey{}).(func(...string) bool)(strings.Split(key, ",")...) { //nolint:forcetypeassert // as below
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			if r.URL.Path == "/wait" {
				<-r.Context().Done()
			}
		}),
	}
	connections.Bound(server, func(ctx context.Context, authenticated func(...string) bool) context.Context {
		return context.WithValue(ctx, authenticatedKey{}, authenticated)
	})
	go server.Serve(connections.Listen(strangers{l})) //nolint:errcheck // it is closed
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

func answered(t *testing.T, conn net.Conn) (status int) {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	synctest.Wait()
	return res.StatusCode
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
		dial, connections := boundedServer(t, transport.Limits{Total: 3, PerAddress: 3, PerActor: 3})
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

// The connections in use of an actor are bounded, so that one credential does not keep
// out the others.
func TestConnectionsOfAnActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial, _ := boundedServer(t, transport.Limits{Total: 10, PerAddress: 10, PerActor: 4})
		send(t, dial(), strings.Replace(waiting, "Key: x", "Key: x,token", 1))
		other := dial()
		send(t, other, strings.Replace(withKey, "Key: x", "Key: x,token", 1))
		require.Equal(t, http.StatusTooManyRequests, answered(t, other), "a token leaves something to others")
		send(t, other, strings.Replace(withKey, "Key: x", "Key: x,other", 1))
		require.Equal(t, http.StatusOK, answered(t, other))
	})
	synctest.Test(t, func(t *testing.T) {
		dial, _ := boundedServer(t, transport.Limits{Total: 10, PerAddress: 10, PerActor: 2})
		first, second, other := dial(), dial(), dial()
		send(t, first, waiting)
		send(t, second, waiting)
		send(t, other, withKey)
		require.Equal(t, http.StatusTooManyRequests, answered(t, other))
		send(t, other, strings.Replace(withKey, "Key: x", "Key: y", 1))
		require.Equal(t, http.StatusOK, answered(t, other))
		require.NoError(t, first.Close())
		synctest.Wait()
		send(t, other, withKey)
		require.Equal(t, http.StatusOK, answered(t, other))
	})
}

// A connection is in use only while it counts for someone: a request without a
// credential keeps no place, also after one with a credential.
func TestUncountedMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial, _ := boundedServer(t, transport.Limits{Total: 1, PerAddress: 1, PerActor: 1})
		first := dial()
		send(t, first, withKey)
		answered(t, first)
		send(t, first, strings.Replace(waiting, "Key: x\r\n", "", 1))
		second := dial()
		require.True(t, isEnded(first))
		send(t, second, waiting)
		dial()
		require.False(t, isEnded(second), "one in use stays")
	})
}

// Headers of many fields are refused, and not passed on.
func TestManyFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial, _ := boundedServer(t, transport.Limits{Total: 10, PerAddress: 10, PerActor: 10})
		for n, want := range map[int]int{254: http.StatusOK, 255: http.StatusRequestHeaderFieldsTooLarge} {
			conn := dial()
			send(t, conn, strings.Replace(withKey, "Key:", strings.Repeat("a:\r\n", n)+"b:\r\nKey:", 1))
			require.Equal(t, want, answered(t, conn))
		}
	})
}

// A connection without an authenticated request may be idle for ten seconds, one that
// has had one for longer, and that of a proxy, too.
func TestIdleStrangersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial, connections := boundedServer(t, transport.Limits{Total: 10, PerAddress: 10, PerActor: 10})
		dialAsProxy, _ := boundedServer(t, transport.Limits{Total: 10, PerAddress: 10, Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
		stranger, tenant, proxy := dial(), dial(), dialAsProxy()
		send(t, proxy, withoutKey)
		answered(t, proxy)
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
		require.False(t, isEnded(proxy))
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
