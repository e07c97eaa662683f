package api_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
)

// A connection over TLS that the server ends is not one that the program has ended:
// its client gets no notice that everything was sent.
func TestPortConnectionOverTLSEndsEarly(t *testing.T) {
	b := newTestBackend()
	uses := recorded{done: make(chan string, 10)}
	o := b.Options()
	o.Ports = b.Ports(nil, uses)
	handler := api.New(o)
	server := httptest.NewTLSServer(handler)
	defer server.Close()
	trusted := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trusted.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", server.Listener.Addr().String(), trusted)
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // it is over
	port := program(t, b, echoUpgraded)
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n", portURL(port), server.Listener.Addr())
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	require.Equal(t, 101, resp.StatusCode)
	_, err = io.WriteString(conn, "GET /socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nping")
	require.NoError(t, err)
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(line, "HTTP/1.1 101"), line)
	handler.Close()
	_, err = io.Copy(io.Discard, r)
	require.Error(t, err)
	require.False(t, errors.Is(err, io.EOF))
}
