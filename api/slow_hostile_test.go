package api_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
)

// hostileServer is a server with keys, and the limits of NewServer.
func hostileServer(t *testing.T) *httptest.Server {
	t.Helper()
	o := newTestBackend().Options()
	o.Auth = testKeys()
	s := httptest.NewUnstartedServer(nil)
	s.Config = api.NewServer(api.New(o), slog.New(slog.DiscardHandler))
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// A client without a credential that announces a body and does not send it is answered,
// and its connection ends: it does not hold a goroutine for as long as it likes.
func TestRefusedBodyIsNotAwaited(t *testing.T) {
	t.Parallel()
	s := hostileServer(t)
	conns := map[string]net.Conn{}
	for _, route := range []string{"POST /v1/claims", "GET /healthz", "PUT /v1/claims/x/memory/y", "GET /readyz"} {
		for _, body := range []string{"Content-Length: 1000", "Transfer-Encoding: chunked"} {
			conn, err := net.Dial("tcp", s.Listener.Addr().String())
			require.NoError(t, err)
			conns[route+" "+body] = conn
			_, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", route, body)
			require.NoError(t, err)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
		}
	}
	for name, conn := range conns {
		text, err := io.ReadAll(conn) // to the end of the connection
		require.Falsef(t, errors.Is(err, os.ErrDeadlineExceeded), "%s: the connection stays open", name)
		require.Contains(t, string(text), "HTTP/1.1 ", name)
		require.NoError(t, conn.Close())
	}
}

// A probe keeps no body of a client without a credential in memory.
func TestProbesReadNoBody(t *testing.T) {
	s := hostileServer(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	part := strings.Repeat("x", 900<<10)
	var conns []net.Conn
	for range 50 {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		require.NoError(t, err)
		conns = append(conns, conn)
		_, err = fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", len(part)+1)
		require.NoError(t, err)
		require.NoError(t, conn.SetWriteDeadline(time.Now().Add(2*time.Second)))
		conn.Write([]byte(part)) //nolint:errcheck // the server need not read it
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(20<<20))
}
