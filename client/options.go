package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

// Options are how a client reaches its server, and as whom. The zero value is for a
// server that needs no credential.
type Options struct {
	// Key is an API key or a token.
	Key string
	// Credential returns the key or token of a request, in place of Key, for tokens
	// that are refreshed. It may be called by many goroutines at once.
	Credential func(ctx context.Context) (string, error)
	// TLS is the configuration of TLS: the certificates of authorities, and the
	// client's own. The client may change a copy of it.
	TLS *tls.Config
}

// socketBase is the address of requests through a Unix socket. The server accepts
// the name, and no request leaves the machine for it.
const socketBase = "http://localhost"

// NewWithOptions returns a client of the server at base, such as
// http://127.0.0.1:8700, or unix:///run/hostler/api.sock for a Unix socket; unix:api.sock
// is one in the working directory.
func NewWithOptions(base string, o Options) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, addressError(base)
	}
	c := &Client{base: strings.TrimRight(base, "/"), name: strings.TrimRight(base, "/"), key: o.Key, credential: o.Credential}
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	switch {
	case u.Scheme == "unix":
		path, err := socketPath(u)
		if err != nil {
			return nil, addressError(base)
		}
		c.base = socketBase
		c.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}
	case u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, addressError(base)
	}
	c.tls = o.TLS.Clone()
	c.http = &http.Client{Transport: c.newTransport(), CheckRedirect: checkRedirect}
	return c, nil
}

// socketPath returns the absolute path of a Unix socket.
func socketPath(u *url.URL) (string, error) {
	relative, err := url.PathUnescape(u.Opaque)
	if err != nil {
		return "", err
	}
	path := cmp.Or(u.Path, relative)
	if u.Host != "" || path == "" || u.RawQuery != "" {
		return "", errors.New("it names no file")
	}
	return filepath.Abs(path)
}

func addressError(base string) error {
	return fmt.Errorf("read the server's address %q: it is written like http://127.0.0.1:8700, or unix:///run/hostler/api.sock", base)
}

// newTransport returns a transport to the server. Without options it is the default
// one, whose connections the clients of a program share.
func (c *Client) newTransport() http.RoundTripper {
	if c.dial == nil && c.tls == nil {
		return http.DefaultTransport
	}
	t := &http.Transport{
		TLSClientConfig: c.tls.Clone(), TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second,
		ForceAttemptHTTP2: true, MaxIdleConns: 100, ExpectContinueTimeout: time.Second,
	}
	if t.DialContext = c.dial; c.dial == nil {
		t.Proxy = http.ProxyFromEnvironment
	}
	return t
}

// upgradeTransport returns a transport for one connection: only HTTP/1.1 has those.
func (c *Client) upgradeTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	t := &http.Transport{Protocols: protocols, TLSHandshakeTimeout: 10 * time.Second, TLSClientConfig: c.tls.Clone(), DialContext: c.dial}
	if c.dial == nil {
		t.Proxy = http.ProxyFromEnvironment
	}
	if standard, ok := http.DefaultTransport.(*http.Transport); ok && c.tls == nil && standard.TLSClientConfig != nil {
		t.TLSClientConfig = standard.TLSClientConfig.Clone()
	}
	return t
}

// Errors that no second attempt changes.
var (
	errRedirect   = errors.New("the server redirects to another address, which is not followed")
	errCredential = errors.New("there is no credential for the request")
)

// checkRedirect refuses a redirect to another address: net/http sends the key along
// to another port, without TLS, and to hosts below the server's.
func checkRedirect(r *http.Request, via []*http.Request) error {
	if first := via[0].URL; r.URL.Scheme != first.Scheme || r.URL.Host != first.Host {
		return fmt.Errorf("%w: %s://%s", errRedirect, r.URL.Scheme, r.URL.Host)
	}
	if len(via) >= 10 {
		return errors.New("the server redirects without an end")
	}
	return nil
}

// authorize adds the key or token to a request.
func (c *Client) authorize(r *http.Request) error {
	key := c.key
	if c.credential != nil {
		var err error
		if key, err = c.credential(r.Context()); err != nil {
			return fmt.Errorf("%w: %w", errCredential, err)
		}
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	return nil
}
