package api_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

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

// Headers of as many fields as there may be take two thirds of what there is for a
// connection, 768 KiB.
func TestUnfinishedFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hostileServer(t)
		const names = "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~"
		fields := strings.Builder{}
		for i := 0; fields.Len() < 32<<10; i++ {
			name := []byte{names[i%len(names)], names[i/len(names)%len(names)], names[i/len(names)/len(names)]}
			fmt.Fprintf(&fields, "%s:\n", bytes.TrimSuffix(name, []byte("a")))
		}
		const count, maxHeader = 20, 16 << 10
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range count {
			conn := s.Dial()
			_, err := fmt.Fprintf(conn, "GET /healthz HTTP/1.1\nHost: x\n%s", fields.String()[:maxHeader-64])
			require.NoError(t, err)
		}
		synctest.Wait()
		runtime.GC()
		runtime.ReadMemStats(&after)
		require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(count*512<<10))
	})
}

// A client of HTTP/2 has few requests at once, and a body that nothing reads leaves room
// for others. The connection of a client that reads nothing ends, and that of
// one that does not answer. A refusal that the client does not take ends, too: it is one
// by net/http, for headers that are too long.
func TestHTTP2IsBounded(t *testing.T) {
	for _, name := range []string{"no answer", "nothing is read", "a refusal is not taken"} {
		synctest.Test(t, func(t *testing.T) {
			server := api.NewServer(http.NotFoundHandler(), slog.New(slog.DiscardHandler))
			server.Protocols = new(http.Protocols)
			server.Protocols.SetUnencryptedHTTP2(true)
			closed := make(chan time.Time, 1)
			server.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateClosed {
					closed <- time.Now()
				}
			}
			begin, conn := time.Now(), pipetest.Serve(t, server).Dial()
			_, err := io.WriteString(conn, http2.ClientPreface)
			require.NoError(t, err)
			client := http2.NewFramer(conn, conn)
			require.NoError(t, client.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize}))
			switch name {
			case "nothing is read":
				require.Equal(t, 20*time.Second, (<-closed).Sub(begin))
				return
			case "a refusal is not taken":
				var block bytes.Buffer
				fields := hpack.NewEncoder(&block)
				for _, f := range []string{":method GET", ":scheme http", ":path /", ":authority x", "x " + strings.Repeat("x", 7<<10), "y " + strings.Repeat("y", 7<<10)} {
					key, value, _ := strings.Cut(f, " ")
					require.NoError(t, fields.WriteField(hpack.HeaderField{Name: key, Value: value}))
				}
				require.NoError(t, client.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true}))
			}
			settings, window := map[http2.SettingID]uint32{}, uint32(65535)
			refused := false
			for {
				frame, err := client.ReadFrame()
				if err != nil {
					break
				}
				switch f := frame.(type) {
				case *http2.SettingsFrame:
					for i := range f.NumSettings() {
						settings[f.Setting(i).ID] = f.Setting(i).Val
					}
				case *http2.WindowUpdateFrame:
					window += f.Increment
				case *http2.RSTStreamFrame:
					require.Equal(t, 20*time.Second, time.Since(begin))
					refused = true
				}
			}
			require.Equal(t, 40*time.Second, (<-closed).Sub(begin))
			require.Equal(t, name != "no answer", refused)
			require.Equal(t, uint32(8), settings[http2.SettingMaxConcurrentStreams])
			require.Equal(t, 4*settings[http2.SettingInitialWindowSize], window)
		})
	}
}
