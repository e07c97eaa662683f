package client_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// A connection carries bytes in both directions, each with its own end.
func TestDialPort(t *testing.T) {
	b := memoryBackend()
	c := serveThrough(t, b, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() { // ends with the connection
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		all, _ := io.ReadAll(conn)
		fmt.Fprintf(conn, "%d bytes", len(all))
	}()
	port := l.Addr().(*net.TCPAddr).Port
	conn, err := c.Port("claim-1", port).DialContext(t.Context(), "", "")
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write(make([]byte, 1<<20))
	require.NoError(t, err)
	require.NoError(t, conn.(interface{ CloseWrite() error }).CloseWrite())
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "1048576 bytes", string(got))

	require.NoError(t, l.Close())
	_, err = c.Port("claim-1", port).DialContext(t.Context(), "", "")
	requireCode(t, client.CodePortRefused, err)
	_, err = c.Port("claim-2", port).DialContext(t.Context(), "", "")
	requireCode(t, client.CodeClaimNotFound, err)
}

// A port is the transport of an http.Client, which follows the program's redirects.
// Only problems of the server itself are errors.
func TestPortRoundTrip(t *testing.T) {
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/start":
			http.Redirect(w, r, "/end/%2F?a=b", http.StatusFound)
		case "/problem":
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusConflict)
			io.WriteString(w, `{"type":"urn:hostler:problem:conflict","code":"conflict","instance":"forged"}`) //nolint:errcheck // the test would fail
		default:
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s %s", r.Method, r.RequestURI, body)
		}
	}))
	defer program.Close()
	c := serveThrough(t, memoryBackend(), nil)
	port := c.Port("claim-1", program.Listener.Addr().(*net.TCPAddr).Port)
	web := http.Client{Transport: port}
	for path, want := range map[string]string{"/start": "GET /end/%2F?a=b ", "/a%2Fb/../c?x": "GET /a%2Fb/../c?x ", "": "GET / "} {
		resp, err := web.Get("http://port" + path)
		require.NoError(t, err, path)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, want, string(text))
	}
	resp, err := web.Post("http://port/x", "text/plain", strings.NewReader("body"))
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, "POST /x body", string(text))

	resp, err = web.Get("http://port/problem")
	require.NoError(t, err, "it is the program's")
	text, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	resp.Body.Close()
	require.Contains(t, string(text), "forged")

	program.Close()
	resp, err = web.Get("http://port/") //nolint:bodyclose // there is none
	require.Nil(t, resp)
	requireCode(t, client.CodePortRefused, err)
}

// A link needs a server with a domain, and a time that it permits.
func TestCreateLink(t *testing.T) {
	c := serveThrough(t, memoryBackend(), nil)
	_, err := c.CreateLink(t.Context(), "claim-1", 80, 0)
	requireCode(t, client.CodeNoPortDomain, err)
	_, err = c.CreateLink(t.Context(), "claim-1", 80, 25*time.Hour)
	requireCode(t, client.CodeInvalidRequest, err)
}
