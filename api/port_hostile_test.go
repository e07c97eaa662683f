package api_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
)

// A program that switches to a protocol that no one asked for keeps no connection.
func TestPortProxyUnaskedProtocol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		b := newTestBackend()
		port := program(t, b, func(w http.ResponseWriter, r *http.Request) {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			defer conn.Close()
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+r.Header.Get("X-Protocol")+"\r\n\r\n") //nolint:errcheck // the test would fail
			_, err = rw.ReadByte()
			ended <- err
		})
		server := startServer(t, b)
		for _, headers := range [][]string{
			{"X-Protocol: any"}, {"X-Protocol: other", "Connection: Upgrade", "Upgrade: any"}, {"X-Protocol: \u212aey", "Connection: Upgrade", "Upgrade: key"},
			{"X-Protocol: h2c", "Connection: Upgrade", "Upgrade: h2c"},
		} {
			resp, body := raw(t, server, "GET", portURL(port)+"/", nil, headers...)
			require.Equal(t, 502, resp.StatusCode, body)
			require.ErrorIs(t, <-ended, io.EOF, "%q: its connection is closed", headers)
		}
	})
}

// A key is never the program's, also if a link was used.
func TestPortProxyKeyWithLink(t *testing.T) {
	seen := make(chan http.Header, 1)
	b := newTestBackend()
	port := program(t, b, func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header })
	keys := testKeys()
	server := startServer(t, b, withDomain(t, "ports.example.com"), func(o *api.Options) { o.Auth = keys })
	a := request(t, server, "POST "+portURL(port)+"/links", `{}`, "application/json", "X-API-Key: "+key1)
	require.Equal(t, 200, a.status, a.text)
	host, token, _ := strings.Cut(strings.TrimPrefix(a.body["url"].(string), "https://"), "/?hostler_link=")
	for _, credential := range []string{"Authorization: Bearer " + key1, "Authorization: bearer  " + key1, "X-API-Key: " + key1} {
		resp, body := raw(t, server, "POST", "/?hostler_link="+token, nil, "Host: "+host, "X-Own: own", credential)
		require.Equal(t, 200, resp.StatusCode, body)
		h := <-seen
		require.NotContains(t, fmt.Sprint(h), key1, credential)
		require.Contains(t, fmt.Sprint(h), "own", "what is the program's")
	}
}

// A connection that a link has opened ends when the link expires, as a response does.
func TestPortLinkEndsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBackend()
		port := program(t, b, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade") != "" {
				echoUpgraded(w, r)
				return
			}
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		server := startServer(t, b, withDomain(t, "http://ports.example.com"))
		a := request(t, server, "POST "+portURL(port)+"/links", `{"expires_in": "10s"}`, "application/json")
		host, token, _ := strings.Cut(strings.TrimPrefix(a.body["url"].(string), "http://"), "/?hostler_link=")
		var responses []*bufio.Reader
		for _, headers := range [][]string{{"Connection: Upgrade", "Upgrade: websocket"}, {"X-Own: x"}} {
			_, r, resp := upgrade(t, server, "GET http://"+host+"/", append(headers, "Cookie: hostler_link="+token)...)
			require.Less(t, resp.StatusCode, 300)
			responses = append(responses, r)
		}
		for _, r := range responses {
			_, _ = io.Copy(io.Discard, r) // to its end, of any kind
		}
	})
}

// What follows a body that cannot be read is no request.
func TestPortProxyBrokenBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBackend()
		port := program(t, b, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }) //nolint:errcheck // it fails
		server := startServer(t, b)
		conn := server.Dial()
		next := "GET " + portURL(port) + "/ HTTP/1.1\r\nHost: localhost\r\n\r\n"
		_, err := io.WriteString(conn, "POST "+portURL(port)+"/ HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"+next)
		require.NoError(t, err)
		r := bufio.NewReader(conn)
		resp, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		require.Equal(t, 502, resp.StatusCode)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		_, err = http.ReadResponse(r, nil)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "the connection is closed")
	})
}

// A client that never sends the rest of its body does not hold its connection when
// the response has ended.
func TestPortProxyEarlyResponse(t *testing.T) {
	t.Parallel() // in no bubble: a lock is held while the client is awaited
	uses := recorded{done: make(chan string, 1)}
	b := newTestBackend()
	port := program(t, b, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer conn.Close()
		io.ReadFull(rw, make([]byte, 3))                                         //nolint:errcheck // the test would fail
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone") //nolint:errcheck // the test would fail
	})
	server := startServer(t, b, func(o *api.Options) { o.Ports = b.Ports(nil, uses) })
	conn := server.Dial()
	_, err := fmt.Fprintf(conn, "POST %s/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc", portURL(port))
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	text := make([]byte, 4)
	_, err = io.ReadFull(r, text)
	require.NoError(t, err)
	require.Equal(t, "done", string(text))
	require.Equal(t, "POST / 200 sent 3 received 4", <-uses.done)
	require.True(t, resp.Close)
	_, err = r.ReadByte()
	require.ErrorIs(t, err, io.EOF, "the server does not wait")
}

// The fields after a response are restricted as those before it.
func TestPortProxyTrailers(t *testing.T) {
	b := newTestBackend()
	port := program(t, b, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "Set-Cookie, X-Sum")
		io.WriteString(w, "text") //nolint:errcheck // the test would fail
		w.Header().Set("Set-Cookie", "bad")
		w.Header().Set("X-Sum", "kept")
		w.Header().Set(http.TrailerPrefix+"Clear-Site-Data", "bad")
	})
	server := startServer(t, b)
	resp, body := raw(t, server, "GET", portURL(port)+"/", nil)
	require.Equal(t, "text", body)
	require.Equal(t, http.Header{"X-Sum": {"kept"}}, resp.Trailer)
}

// On a host of its own each request is one to the program, also without a path: a link
// opens no connection that is none of HTTP.
func TestPortProxyWithoutPath(t *testing.T) {
	b := newTestBackend()
	port := program(t, b, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Method+" "+r.RequestURI) }) //nolint:errcheck // the test would fail
	server := startServer(t, b, withDomain(t, "ports.example.com"))
	for _, headers := range [][]string{nil, {"Connection: Upgrade", "Upgrade: tcp"}} {
		resp, body := raw(t, server, "POST", fmt.Sprintf("http://%d-claim-alice.ports.example.com", port), nil, headers...)
		require.Equal(t, 200, resp.StatusCode, body)
		require.Equal(t, "POST /", body)
	}
}

// What clients ask of programs is in no line of the log, also if it is asked wrongly.
func TestPortPathsAreNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines lockedBuffer
		server := startServer(t, newTestBackend(), func(o *api.Options) {
			o.Log = slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		for _, path := range []string{"/v1/claims/claim-alice/ports/1/secret", "/v1/claims/a%2Fb/ports/1/secret", "/v1/claims/x/ports/01/secret", "/v1/claims/x/ports//secret", "/v1/claims/a%0Ab/files/secret", "/v1/claims/a%0Ab/ports/1/secret"} {
			resp, _ := raw(t, server, "GET", path, nil)
			require.GreaterOrEqual(t, resp.StatusCode, 400, path)
		}
		synctest.Wait() // a request is logged after its response
		require.Equal(t, 7, strings.Count(lines.String(), "msg=request"))
		require.NotContains(t, lines.String(), "secret")
		require.Contains(t, lines.String(), "path=/v1/claims/x/ports/01/-")
	})
}

// A client without a key holds a connection no longer than the time for a body.
func TestRefusedBodyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := testKeys()
		server := startServer(t, newTestBackend(), withDomain(t, "ports.example.com"), func(o *api.Options) { o.Auth = keys })
		for _, host := range []string{"localhost", "80-claim-alice.ports.example.com"} {
			conn := server.Dial()
			begin := time.Now()
			_, err := fmt.Fprintf(conn, "POST /v1/claims HTTP/1.1\r\nHost: %s\r\nContent-Length: 10\r\n\r\n", host)
			require.NoError(t, err)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err, host)
			require.Equal(t, 401, resp.StatusCode)
			require.LessOrEqual(t, time.Since(begin), 2*time.Second, host)
		}
	})
}
