package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
)

// keyOf returns the key of a request.
func keyOf(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return r.Header.Get("X-API-Key")
}

const (
	// maxChecked bounds the words of a header that may be credentials: the check of one
	// may verify a signature, and the holder of a link writes the header.
	maxChecked = 16
	// minCredential is the least length of a key or token.
	minCredential = 16
)

// isIn reports whether a header has a credential, or so many words that it is not
// checked.
func (a *API) isIn(ctx context.Context, header string) bool {
	if a.o.Auth == nil {
		return false
	}
	words := slices.DeleteFunc(strings.Fields(header), func(word string) bool { return len(word) < minCredential })
	return len(words) > maxChecked || slices.ContainsFunc(words, func(word string) bool { return a.o.Auth.IsCredential(ctx, word) })
}

// publicPaths are the paths that need no credential: probes have none.
var publicPaths = map[string]bool{"/healthz": true, "/readyz": true}

// credentialOf returns what a request shows of its sender.
func credentialOf(r *http.Request) auth.Request {
	c := auth.Request{Bearer: keyOf(r), UID: peerUID(r.Context())}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		c.Certificate = r.TLS.PeerCertificates[0]
	}
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		c.Address = at.Addr().Unmap()
	}
	return c
}

type peerUIDKey struct{}

// WithPeerUID returns the context of a connection through a Unix socket, for
// ConnContext of an http.Server.
func WithPeerUID(ctx context.Context, uid uint32) context.Context {
	return context.WithValue(ctx, peerUIDKey{}, &uid)
}

func peerUID(ctx context.Context) *uint32 {
	uid, _ := ctx.Value(peerUIDKey{}).(*uint32)
	return uid
}

type authenticatedKey struct{}

// WithAuthenticated returns the context of a request with what is called when its
// sender is known: it returns false if the sender uses too many connections.
func WithAuthenticated(ctx context.Context, authenticated func(actors ...string) bool) context.Context {
	return context.WithValue(ctx, authenticatedKey{}, authenticated)
}

// authenticate returns who sent the request, or refuses it. A probe may have no
// principal.
func (a *API) authenticate(r *http.Request) (*auth.Principal, *Problem) {
	if err := a.crossOrigin.Check(r); err != nil {
		return nil, newProblem(r.Context(), Forbidden, "cross-origin requests that change state are not allowed")
	}
	credential := credentialOf(r)
	if (a.o.Auth == nil || a.o.Auth.IsOpen()) && credential.UID == nil {
		// Without credentials only the address protects the server. The check of the
		// host name prevents DNS rebinding, where a page's name resolves to this
		// address.
		if !isLoopback(r.Host) {
			return nil, newProblem(r.Context(), Forbidden, "a server without API keys accepts only loopback host names, not "+quote(r.Host))
		}
		return auth.WithoutCredentials(), nil
	}
	if publicPaths[r.URL.Path] {
		return nil, nil
	}
	return a.authenticateCredential(r.Context(), credential)
}

// authenticateCredential returns the principal of a credential.
func (a *API) authenticateCredential(ctx context.Context, c auth.Request) (*auth.Principal, *Problem) {
	if a.o.Auth == nil { // a Unix socket of a server without credentials
		return auth.WithoutCredentials(), nil
	}
	p, err := a.o.Auth.Authenticate(ctx, c)
	if err != nil {
		return nil, credentialProblem(ctx, err)
	}
	return p, nil
}

// credentialProblem refuses a request without a credential that is accepted.
func credentialProblem(ctx context.Context, err error) *Problem {
	if tooMany, ok := errors.AsType[*auth.TooManyError](err); ok {
		p := newProblem(ctx, RateLimited, tooMany.Error())
		p.retry = tooMany.RetryAfter
		return p
	}
	switch {
	case errors.Is(err, auth.ErrNoCredential):
		return newProblem(ctx, Unauthorized, "send an API key as Authorization: Bearer KEY, or as X-API-Key")
	case errors.Is(err, auth.ErrInvalidCredential):
		markDenied(ctx, deniedCredential)
		return newProblem(ctx, Unauthorized, "invalid API key or token")
	case errors.Is(err, auth.ErrUnavailable):
		return newProblem(ctx, StorageUnavailable, "the credential cannot be checked")
	}
	return newProblem(ctx, Internal, "the credential could not be checked")
}

// actorOf returns the actor of a request, for its principal, if it has one.
func actorOf(r *http.Request, p *auth.Principal) activity.Actor {
	actor := activity.Actor{Name: activity.Anonymous, Request: requestID(r.Context())}
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		actor.Address = at.Addr().Unmap().String()
	}
	if p != nil {
		actor.Name = p.Actor
	}
	return actor
}

// loggedName returns who sent a request, for the log: the name of a key, and the actor
// of any other credential, whose holder may have the name of a key.
func loggedName(p *auth.Principal) string {
	if p == nil {
		return ""
	}
	return strings.TrimPrefix(p.Actor, "key:")
}

// asPrincipal returns the request as one of the principal. It ends, with the cause,
// when the credential does; release it when it is over.
func (a *API) asPrincipal(r *http.Request, p *auth.Principal) (_ *http.Request, release func()) {
	actor := actorOf(r, p)
	markActor(r.Context(), actor)
	ctx := auth.WithPrincipal(activity.WithActor(r.Context(), actor), p)
	if p == nil || a.o.Auth == nil || p.Actor == linkActor { // a link is no credential of the Authenticator's: it ends by itself
		return r.WithContext(ctx), func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := a.o.Auth.Follow(p, func(cause error) { cancel(cause) })
	return r.WithContext(ctx), func() { stop(); cancel(nil) }
}

// isLoopback reports whether a host, with or without a port, is a loopback name
// or address.
func isLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// quote returns untrusted text in a form that is safe to show.
func quote(s string) string { return fmt.Sprintf("%.100q", s) }
