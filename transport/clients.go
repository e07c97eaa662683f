package transport

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hostler/hostler/auth"
)

// peer is the client of one connection, and what was found of its certificate.
type peer struct {
	// mu guards what follows. It is held during a verification, which other requests
	// of the connection would repeat.
	mu       sync.Mutex
	verified *material // the certificate was checked with it; nil: not yet
	expires  time.Time // the first end of a certificate of the accepted chain
	err      error
}

// request is a request in progress of a client with a certificate.
type request struct {
	peer         *peer
	certificates []*x509.Certificate
	end          func(cause error)
}

type peerKey struct{}

// ConnContext returns the context of a connection, for http.Server.
func (t *TLS) ConnContext(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, &peer{})
}

// Handler returns a handler that shows next only certificates which are valid at the
// time of the request. A request with one ends, with auth.ErrRevoked or
// auth.ErrExpired as the cause, when the certificate is not accepted any more.
func (t *TLS) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		p, ok := r.Context().Value(peerKey{}).(*peer)
		if !ok {
			p = &peer{} // a server without ConnContext: each request is checked
		}
		// It is registered before the check: authorities that are replaced between the
		// two must end it.
		ctx, end := context.WithCancelCause(r.Context())
		defer end(nil)
		registered := &request{peer: p, certificates: r.TLS.PeerCertificates, end: end}
		t.register(registered)
		defer t.unregister(registered)
		if err := p.check(t.used.Load(), r.TLS.PeerCertificates, t.now()); err != nil {
			next.ServeHTTP(w, withoutCertificate(r))
			return
		}
		timer := time.AfterFunc(p.end().Sub(t.now()), func() { end(auth.ErrExpired) })
		defer timer.Stop()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// withoutCertificate returns a request that shows no certificate of the client.
func withoutCertificate(r *http.Request) *http.Request {
	shown := *r
	state := *r.TLS
	state.PeerCertificates, state.VerifiedChains = nil, nil
	shown.TLS = &state
	return &shown
}

func (t *TLS) register(r *request) {
	t.requestsMu.Lock()
	defer t.requestsMu.Unlock()
	t.requests[r] = struct{}{}
}

func (t *TLS) unregister(r *request) {
	t.requestsMu.Lock()
	defer t.requestsMu.Unlock()
	delete(t.requests, r)
}

// check returns an error unless the client's certificate is valid now. Signatures are
// verified once for each set of authorities, times at each call. A resumed session
// has the certificates of an earlier handshake, so the first call verifies too.
func (p *peer) check(m *material, certificates []*x509.Certificate, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.verified == nil || p.verified.clients != m.clients {
		p.verified = m
		p.expires, p.err = verify(m.clients, certificates)
	}
	if p.err == nil && now.After(p.expires) {
		p.err = auth.ErrExpired
	}
	return p.err
}

// end returns when the certificate stops to be valid.
func (p *peer) end() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.expires
}

// verify returns until when the authorities accept a client's certificate.
func verify(clients *x509.CertPool, certificates []*x509.Certificate) (until time.Time, err error) {
	if clients == nil || len(certificates) == 0 {
		return until, errors.New("certificates of clients are not accepted")
	}
	between := x509.NewCertPool()
	for _, c := range certificates[1:] {
		between.AddCert(c)
	}
	chains, err := certificates[0].Verify(x509.VerifyOptions{
		Roots: clients, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return until, err
	}
	for _, chain := range chains {
		end := chain[0].NotAfter
		for _, c := range chain {
			if c.NotAfter.Before(end) {
				end = c.NotAfter
			}
		}
		if end.After(until) {
			until = end
		}
	}
	return until, nil
}
