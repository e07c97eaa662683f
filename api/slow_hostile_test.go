package api_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/internal/pipetest"
)

// hostileServer is a server with keys, and the limits of NewServer.
func hostileServer(t *testing.T) *pipetest.Server {
	t.Helper()
	o := newTestBackend().Options()
	o.Auth = testKeys()
	return pipetest.Serve(t, api.NewServer(api.New(o), slog.New(slog.DiscardHandler)))
}

// A client without a credential that announces a body and does not send it is answered,
// and its connection ends: it does not hold a goroutine for as long as it likes.
func TestRefusedBodyIsNotAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hostileServer(t)
		conns := map[string]net.Conn{}
		for _, route := range []string{"POST /v1/claims", "GET /healthz", "PUT /v1/claims/x/memory/y", "GET /readyz"} {
			for _, body := range []string{"Content-Length: 1000", "Transfer-Encoding: chunked"} {
				conn := s.Dial()
				conns[route+" "+body] = conn
				_, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", route, body)
				require.NoError(t, err)
			}
		}
		for name, conn := range conns {
			text, err := io.ReadAll(conn) // to the end of the connection
			require.NoError(t, err, name)
			require.Contains(t, string(text), "HTTP/1.1 ", name)
			require.NoError(t, conn.Close())
		}
	})
}

// A probe keeps no body of a client without a credential in memory.
func TestProbesReadNoBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hostileServer(t)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		part := strings.Repeat("x", 900<<10)
		var conns []net.Conn
		for range 50 {
			conn := s.Dial()
			conns = append(conns, conn)
			_, err := fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", len(part)+1)
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
	})
}
