package client

import (
	"context"
	"net"
	"net/http"
)

// unixBase is the address in requests through a Unix socket. The name is not looked
// up.
const unixBase = "http://localhost"

// overUnix returns a client of the server that listens on a Unix socket.
func overUnix(path string) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck // it is one
	transport.Proxy = nil
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return &http.Client{Transport: transport}
}
