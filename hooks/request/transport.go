package request

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// Bounds of connections. The timeout of an attempt bounds everything.
const (
	dialTimeout         = 10 * time.Second
	keepAlive           = 30 * time.Second
	idleTimeout         = 90 * time.Second
	maxIdle             = 128 // connections
	maxIdlePerHost      = 16
	maxHeaderBytes      = 64 << 10 // of a response
	minTLS              = tls.VersionTLS12
	maxResponseBytes    = 64 << 10 // of a body
	maxDrain            = time.Second
	maxBodyBytes        = 1 << 20 // of a request
	maxURLBytes         = 16 << 10
	maxHeaderValueBytes = 16 << 10
)

// transport returns a transport whose connections go to accepted addresses
// only. The name is resolved once for a connection, and each address is checked
// when it is dialed. If listed is set, allow must have the host or the address.
//
// It speaks HTTP/1.1: a connection carries one request at a time, so a peer
// cannot end or delay several at once.
func (a *addresses) transport(roots *x509.CertPool, listed bool) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy: nil, // the server's proxy could reach every address
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return a.dial(ctx, network, address, listed)
		},
		Protocols:              protocols,
		TLSClientConfig:        &tls.Config{MinVersion: minTLS, RootCAs: roots},
		TLSHandshakeTimeout:    dialTimeout,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true, // the limit is that of what is received
	}
}

// sender sends requests with a transport, which uses connections again. Those
// that net/http would send again if such a connection is lost, although the
// receiver may have read the first, have connections of their own.
type sender struct{ again, once *http.Transport }

func newSender(t *http.Transport) sender {
	once := t.Clone()
	once.DisableKeepAlives = true
	return sender{again: t, once: once}
}

// RoundTrip implements http.RoundTripper.
func (s sender) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return s.once.RoundTrip(r)
	}
	return s.again.RoundTrip(r)
}

// dial connects to address, HOST:PORT.
func (a *addresses) dial(ctx context.Context, network, address string, listed bool) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{
		Timeout: dialTimeout, KeepAlive: keepAlive, Resolver: a.resolver,
		ControlContext: func(ctx context.Context, _, address string, _ syscall.RawConn) error {
			dialed, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrRefused, err)
			}
			return a.check(ctx, host, dialed.Addr(), listed)
		},
	}
	return dialer.DialContext(ctx, network, address)
}
