package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/internal/pipetest"
)

// upgrade opens a connection with a protocol, and returns it with what reads it.
func upgrade(t *testing.T, server *pipetest.Server, request string, headers ...string) (*pipetest.Conn, *bufio.Reader, *http.Response) {
	t.Helper()
	conn := server.Dial()
	r, resp := upgradeConn(t, conn, request, headers...)
	return conn, r, resp
}

func upgradeConn(t *testing.T, conn net.Conn, request string, headers ...string) (*bufio.Reader, *http.Response) {
	t.Helper()
	_, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n", request, conn.RemoteAddr(), strings.Join(headers, "\r\n"))
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	return r, resp
}

// echoUpgraded answers with a protocol, and then echoes.
func echoUpgraded(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.WriteHeader(http.StatusUpgradeRequired)
		return
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSet-Cookie: a=b\r\n\r\n") //nolint:errcheck // the test would fail
	io.Copy(conn, rw)                                                                                                                //nolint:errcheck // it ends with the client
}

// A protocol of the client and the program is passed on, longer than any write
// timeout, and ends when the server stops.
func TestPortProxyUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBackend()
		uses := recorded{done: make(chan string, 10)}
		o := b.Options()
		o.Ports, o.WriteTimeout = b.Ports(nil, uses), 2*time.Second
		handler := api.New(o)
		server := pipetest.NewServer(t, handler)
		port := program(t, b, echoUpgraded)
		conn, r, resp := upgrade(t, server, "GET "+portURL(port)+"/socket", "Connection: keep-alive, Upgrade", "Upgrade: websocket")
		require.Equal(t, 101, resp.StatusCode)
		require.Empty(t, resp.Header.Get("Set-Cookie"))
		for range 4 {
			_, err := io.WriteString(conn, "ping")
			require.NoError(t, err)
			got := make([]byte, 4)
			_, err = io.ReadFull(r, got)
			require.NoError(t, err)
			require.Equal(t, "ping", string(got))
			<-time.After(time.Second)
		}
		handler.Close()
		_, err := r.ReadByte()
		require.Error(t, err)
		require.Equal(t, "GET /socket 101 sent 16 received 16", <-uses.done)

		other := startServer(t, b) // whose clients have more time
		resp, _ = raw(t, other, "GET", portURL(port)+"/", nil, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: x")
		require.Equal(t, http.StatusUpgradeRequired, resp.StatusCode, "HTTP/2 would pass no gate")
	})
}

// A stream of the program arrives as it is sent, longer than any write timeout, also
// while the program still reads.
func TestPortProxyStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBackend()
		port := program(t, b, func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			if control.EnableFullDuplex() != nil {
				return
			}
			for lines := bufio.NewScanner(r.Body); lines.Scan(); {
				io.WriteString(w, "<"+lines.Text()+">\n") //nolint:errcheck // the test would fail
				control.Flush()                           //nolint:errcheck // the same
			}
		})
		server := startServer(t, b, func(o *api.Options) { o.WriteTimeout = 4 * time.Second })
		body, in := io.Pipe()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+portURL(port)+"/", body)
		require.NoError(t, err)
		go fmt.Fprintln(in, 0) // ends when it is read
		resp, err := server.Client().Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		for i := range 5 {
			require.True(t, lines.Scan(), lines.Err())
			require.Equal(t, fmt.Sprintf("<%d>", i), lines.Text())
			<-time.After(time.Second)
			_, err := fmt.Fprintln(in, i+1)
			require.NoError(t, err)
		}
		require.NoError(t, in.Close())
		require.True(t, lines.Scan())
		require.False(t, lines.Scan())
		require.NoError(t, lines.Err())
	})
}

// A connection carries bytes in both directions, with an end for each.
func TestPortConnection(t *testing.T) {
	b := newTestBackend()
	uses := recorded{done: make(chan string, 10)}
	server := startServer(t, b, func(o *api.Options) { o.Ports = b.Ports(nil, uses) })
	port, l := listen(b)
	go func() { // ends with the test
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		all, _ := io.ReadAll(c)
		fmt.Fprintf(c, "%d bytes", len(all))
	}()
	conn, r, resp := upgrade(t, server, "POST "+portURL(port), "Connection: Upgrade", "Upgrade: tcp", "\r\nearly")
	require.Equal(t, 101, resp.StatusCode)
	_, err := conn.Write(make([]byte, 1<<20))
	require.NoError(t, err)
	require.NoError(t, conn.CloseWrite())
	all, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%d bytes", 1<<20+len("early")+4), string(all))
	require.Contains(t, <-uses.done, fmt.Sprintf("0 sent %d received %d", 1<<20+len("early")+4, len(all)))
}

// A server that stops ends connections with an error, not with an end. Only a
// socket has both.
func TestPortConnectionEndsWithServer(t *testing.T) {
	b := newTestBackend()
	handler := api.New(b.Options())
	server := httptest.NewServer(handler)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	port, _ := listen(b)
	r, resp := upgradeConn(t, conn, "POST "+portURL(port), "Connection: Upgrade", "Upgrade: tcp")
	require.Equal(t, 101, resp.StatusCode)
	handler.Close()
	_, err = r.ReadByte()
	require.Error(t, err)
	require.NotErrorIs(t, err, io.EOF)
}
