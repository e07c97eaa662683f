package client_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// The address of a Unix socket is one of a server, for each kind of request. The
// host that the server sees is a loopback name, which one without credentials needs.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // of a test
		if r.Host != "localhost" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if r.Header.Get("Upgrade") != "" {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nhello") //nolint:errcheck // the client sees it
				conn.Close()                                                                                             //nolint:errcheck // it is over
			}
			return
		}
		fmt.Fprint(w, `{"items":[]}`) //nolint:errcheck // the client sees it
	})}}
	server.Start()
	defer server.Close()
	for _, address := range []string{"unix:" + path, "unix://" + path} {
		c, err := client.New(address, "")
		require.NoError(t, err)
		_, err = c.Pools(t.Context())
		require.NoError(t, err)
		resp, err := (&http.Client{Transport: c.Port("claim", 80)}).Get("http://port/")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
		conn, err := c.Port("claim", 80).DialContext(t.Context(), "", "")
		require.NoError(t, err)
		got := make([]byte, 5)
		_, err = conn.Read(got)
		require.NoError(t, err)
		require.Equal(t, "hello", string(got))
		require.NoError(t, conn.Close())
	}
	_, err = client.New("unix:", "")
	require.Error(t, err)
}
