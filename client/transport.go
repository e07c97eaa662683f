package client

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
)

// unixPrefix is the beginning of the address of a server on a Unix socket.
const unixPrefix = "unix:"

// newUnix returns a client of the server that listens on a Unix socket.
func newUnix(path, key string) (*Client, error) {
	if path == "" {
		return nil, errors.New("read the server's address unix:: it is written like unix:/run/hostler/socket")
	}
	t := standardTransport()
	t.Proxy = nil
	t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return &Client{base: "http://localhost", key: key, http: &http.Client{Transport: t}, transport: t}, nil
}

// WithTLS returns a client of the same server that uses config, for an authority or a
// client's certificate of its own.
func (c *Client) WithTLS(config *tls.Config) *Client {
	t := c.standard().Clone()
	t.TLSClientConfig = config.Clone()
	t.ForceAttemptHTTP2 = true
	with := *c
	with.transport, with.http = t, &http.Client{Transport: t}
	return &with
}

// standard returns the transport of requests.
func (c *Client) standard() *http.Transport {
	if c.transport != nil {
		return c.transport
	}
	return standardTransport()
}

// standardTransport returns a copy of http.DefaultTransport.
func standardTransport() *http.Transport {
	if standard, ok := http.DefaultTransport.(*http.Transport); ok {
		return standard.Clone()
	}
	return &http.Transport{Proxy: http.ProxyFromEnvironment}
}

// roundTripper returns what sends requests to ports.
func (c *Client) roundTripper() http.RoundTripper {
	if c.transport != nil {
		return c.transport
	}
	return http.DefaultTransport
}

// upgradeTransport returns a transport for one connection: only HTTP/1.1 has those.
func (c *Client) upgradeTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	standard := c.standard()
	t := &http.Transport{Proxy: standard.Proxy, Protocols: protocols, TLSHandshakeTimeout: 10 * time.Second}
	if c.transport != nil {
		t.DialContext = standard.DialContext
	}
	if standard.TLSClientConfig != nil {
		t.TLSClientConfig = standard.TLSClientConfig.Clone()
		t.TLSClientConfig.NextProtos = nil // HTTP/2 was added where the transport has spoken it
	}
	return t
}

// cutUnix returns the path of a socket if the address has one.
func cutUnix(base string) (path string, ok bool) {
	path, ok = strings.CutPrefix(base, unixPrefix)
	return strings.TrimPrefix(path, "//"), ok
}
