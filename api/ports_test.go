package api_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/internal/pipetest"
	"github.com/hostler/hostler/runtime"
)

// program starts a program that serves HTTP in the container of claim-alice. It
// returns its port.
func program(t *testing.T, b *apitest.Backend, serve http.HandlerFunc) int {
	t.Helper()
	port, l := listen(b)
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: serve}} //nolint:gosec // the client is the API
	server.Start()
	t.Cleanup(server.Close)
	return port
}

// listen returns a port of the container of claim-alice, and its listener.
func listen(b *apitest.Backend) (int, *pipetest.Listener) {
	var l *pipetest.Listener
	port := 0
	b.Locked(func() {
		port = 7000 + len(b.Programs)
		l = pipetest.Listen(port)
		b.Programs[port] = func(ctx context.Context) (runtime.PortConn, error) { return l.Dial(ctx) }
	})
	return port, l
}

// portURL is the path of a port of claim-alice.
func portURL(port int) string { return "/v1/claims/claim-alice/ports/" + strconv.Itoa(port) }

// raw sends a request with a path as it is, follows no redirect, and returns the
// response with its body.
func raw(t *testing.T, server *pipetest.Server, method, path string, body io.Reader, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL, body)
	require.NoError(t, err)
	r.URL.Opaque = path
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
		if name == "Host" {
			r.Host = value
		}
	}
	resp, err := server.Client().Transport.RoundTrip(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(text)
}

// A request reaches the program as it was sent, and its response the client.
func TestPortProxy(t *testing.T) {
	b := newTestBackend()
	port := program(t, b, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("X-Seen", r.Method+" "+r.RequestURI+" "+r.Host)
		w.WriteHeader(http.StatusTeapot)
		w.Write(body) //nolint:errcheck // the test would fail
	})
	server := startServer(t, b)
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"} {
		for _, path := range []string{"/", "/a//b/../c/", "/%2e%2e/%2Fx", "/%ff", "/x?a=1;b=2&c=%zz&hostler_link=1", "/links/", "/memory/x"} {
			resp, body := raw(t, server, method, portURL(port)+path, strings.NewReader("body of "+path))
			require.Equal(t, http.StatusTeapot, resp.StatusCode, "%s %s: %s", method, path, body)
			require.Equal(t, fmt.Sprintf("%s %s localhost:%d", method, path, port), resp.Header.Get("X-Seen"))
			require.Equal(t, "body of "+path, body)
		}
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 10<<20/16)
	resp, body := raw(t, server, "POST", portURL(port)+"/", struct{ io.Reader }{bytes.NewReader(large)})
	require.Equal(t, http.StatusTeapot, resp.StatusCode)
	require.True(t, string(large) == body, "%d bytes", len(body))
	resp, _ = raw(t, server, "HEAD", portURL(port)+"/", nil)
	require.Equal(t, "HEAD / localhost:"+strconv.Itoa(port), resp.Header.Get("X-Seen"))
}

// What is for Hostler does not reach the program, and what the client says of its
// own address neither.
func TestPortProxyCredentials(t *testing.T) {
	seen := make(chan http.Header, 1)
	b := newTestBackend()
	port := program(t, b, func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header })
	server := startServer(t, b)
	resp, _ := raw(t, server, "GET", portURL(port)+"/", nil,
		"Authorization: Bearer secret", "X-API-Key: secret", "Cookie: a=secret", "Cookie: b=secret", "Proxy-Authorization: secret",
		"X-Forwarded-For: 1.2.3.4", "X-Forwarded-Proto: secret", "X-Forwarded-Prefix: secret", "Forwarded: for=secret", "Connection: X-Forwarded-Host", "X-Own: kept")
	require.Equal(t, 200, resp.StatusCode)
	h := <-seen
	require.NotContains(t, fmt.Sprint(h), "secret")
	require.Equal(t, "kept", h.Get("X-Own"))
	require.Equal(t, "127.0.0.1", h.Get("X-Forwarded-For"))
	require.Equal(t, "http", h.Get("X-Forwarded-Proto"))
	require.Equal(t, server.Addr(), h.Get("X-Forwarded-Host"))
	require.Equal(t, portURL(port), h.Get("X-Forwarded-Prefix"))
	require.Equal(t, resp.Header.Get("X-Request-Id"), h.Get("X-Request-Id"))
}

// A response acts on nothing but itself: it has the API's origin.
func TestPortProxyRestrictsResponses(t *testing.T) {
	bad := []string{
		"Set-Cookie", "Clear-Site-Data", "Service-Worker-Allowed", "Strict-Transport-Security", "Access-Control-Allow-Origin",
		"Access-Control-Allow-Credentials", "Alt-Svc", "Nel", "Report-To", "Refresh", "Www-Authenticate", "Public-Key-Pins", "Content-Security-Policy-Report-Only",
	}
	b := newTestBackend()
	port := program(t, b, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		for _, name := range bad {
			h.Set(name, "bad")
		}
		w.WriteHeader(http.StatusEarlyHints) // its headers are no way around
		h.Set("Content-Security-Policy", "default-src *")
		h.Set("Cache-Control", "public, max-age=31536000")
		h.Set("X-Request-Id", "bad")
		h.Set("X-Own", "kept")
		w.WriteHeader(http.StatusUnauthorized)
	})
	server := startServer(t, b)
	resp, _ := raw(t, server, "GET", portURL(port)+"/", nil, "Origin: http://evil.example")
	require.Equal(t, 401, resp.StatusCode)
	require.NotContains(t, fmt.Sprint(resp.Header), "bad")
	require.Equal(t, []string{"default-src *", "sandbox; frame-ancestors 'none'"}, resp.Header.Values("Content-Security-Policy"))
	require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
	require.Equal(t, []string{"nosniff"}, resp.Header.Values("X-Content-Type-Options"))
	require.Equal(t, "kept", resp.Header.Get("X-Own"))

	resp, body := raw(t, server, "GET", portURL(port)+"/sw.js", nil, "Service-Worker: script")
	require.Equal(t, 403, resp.StatusCode, body)
	resp, body = raw(t, server, "POST", portURL(port)+"/", nil, "Origin: http://evil.example", "Sec-Fetch-Site: cross-site")
	require.Equal(t, 403, resp.StatusCode, body)
	resp, body = raw(t, server, "GET", portURL(port)+"/", nil, "Origin: http://evil.example", "Connection: Upgrade", "Upgrade: websocket")
	require.Equal(t, 403, resp.StatusCode, body)
	resp, body = raw(t, server, "TRACE", portURL(port)+"/", nil)
	require.Equal(t, 405, resp.StatusCode, body)
}

// A redirect stays in the port: with a key, the client would call the API, or give
// the key away.
func TestPortProxyRedirects(t *testing.T) {
	b := newTestBackend()
	port := program(t, b, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	server, at := startServer(t, b), portURL(port)
	for given, want := range map[string]string{
		"/login?a=b#c": at + "/login?a=b#c", "next": at + "/dir/next", "../up": at + "/up", "../../../../up": at + "/up", "?q": at + "/dir/page?q",
		"http://localhost:" + strconv.Itoa(port) + "/x": at + "/x", "http://127.0.0.1:" + strconv.Itoa(port): at,
		"/a%2Fb": at + "/a%2Fb", "dir/": at + "/dir/dir/", "/x//y%2F": at + "/x//y%2F",
		"http://evil.example/": "", "//evil.example/": "", `/\evil.example`: "", `\\evil.example`: "", "javascript:alert(1)": "", "data:,x": "",
		"/%2e%2e/%2e%2e/%2e%2e/%2e%2e/pools": "", "/%2e%2e%2f%2e%2e": "", "http://user@localhost:" + strconv.Itoa(port) + "/": "", "//" + server.Addr() + "/v1/pools": "",
		"http:/v1/pools": "", "http:v1": "", "%zz": "",
	} {
		resp, _ := raw(t, server, "POST", at+"/dir/page?to="+url.QueryEscape(given), nil)
		require.Equal(t, 307, resp.StatusCode)
		require.Equal(t, want, resp.Header.Get("Location"), given)
		if want == "" {
			require.Equal(t, given, resp.Header.Get("Hostler-Location"))
		}
	}
}

// Errors of the server itself are problems.
func TestPortProxyErrors(t *testing.T) {
	broken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer broken.Close()
	go func() { // ends with the listener
		for {
			c, err := broken.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "SSH-2.0-x\r\n") //nolint:errcheck // the test would fail
			c.Close()
		}
	}()
	refused := apitest.RefusedPort(t)
	b := newTestBackend()
	large := program(t, b, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Large", strings.Repeat("x", 1<<20)) })
	server := startServer(t, b)
	for path, want := range map[string]string{
		portURL(refused) + "/": "502 port_refused", portURL(broken.Addr().(*net.TCPAddr).Port) + "/": "502 port_failed", portURL(large) + "/": "502 port_failed",
		"/v1/claims/claim-bob/ports/80/": "409 claim_not_active", "/v1/claims/none/ports/80/": "404 claim_not_found",
		portURL(65536) + "/": "404 not_found", portURL(99999) + "/": "404 not_found", portURL(0) + "/": "404 not_found", "/v1/claims/claim-alice/ports/080/": "404 not_found",
		portURL(80): "404 not_found", "/v1/claims/claim-alice/ports/80x/": "404 not_found", "/v1/claims/a%2Fb/ports/80/": "404 not_found",
	} {
		resp, text := raw(t, server, "GET", path, nil)
		require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"), path)
		require.Contains(t, text, `"code":"`+strings.Fields(want)[1]+`"`, path)
		require.Equal(t, strings.Fields(want)[0], strconv.Itoa(resp.StatusCode), path)
	}
}

// gate refuses paths that begin with /secret, and connections when it is closed.
type gate struct {
	access.Gates
	noConnections bool
}

func (g *gate) Request(_ context.Context, _ access.Grant, r access.PortUse) error {
	if strings.HasPrefix(r.Path, "/secret") || r.Method == "" && g.noConnections {
		return &access.DeniedError{Gate: "request.before", Hook: "h", Message: "not that"}
	}
	return nil
}

// recorded records requests.
type recorded struct {
	access.Uses
	done chan string
}

func (u recorded) RequestCompleted(_ access.Grant, r access.PortUse, d access.RequestDone) {
	u.done <- fmt.Sprintf("%s %s %d sent %d received %d", r.Method, r.Path, d.Status, d.Sent, d.Received)
}

// Every request passes the gate and is recorded, those on one connection too.
func TestPortProxyGate(t *testing.T) {
	b := newTestBackend()
	uses := recorded{done: make(chan string, 10)}
	server := startServer(t, b, func(o *api.Options) { o.Ports = b.Ports(&gate{noConnections: true}, uses) })
	port := program(t, b, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }) //nolint:errcheck // the test would fail
	resp, body := raw(t, server, "POST", portURL(port)+"/open?secret=1", strings.NewReader("abc"))
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, "hello", body)
	require.Equal(t, "POST /open 200 sent 3 received 5", <-uses.done)
	for _, path := range []string{"/secret", "/%73ecret/x"} {
		resp, body = raw(t, server, "GET", portURL(port)+path, nil)
		require.Equal(t, 403, resp.StatusCode)
		require.Contains(t, body, `"code":"denied_by_hook"`)
		require.Contains(t, body, "not that")
	}
	resp, body = raw(t, server, "POST", portURL(port), nil, "Connection: Upgrade", "Upgrade: tcp")
	require.Equal(t, 403, resp.StatusCode, body)
	require.Empty(t, uses.done)
}
