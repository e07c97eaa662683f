package auth

import (
	"context"
	"crypto/x509"
	"errors"
	"net/netip"
	"time"
)

// Errors of an Authenticator. None has a part of the credential.
var (
	// ErrNoCredential reports a request without a credential.
	ErrNoCredential = errors.New("the request has no credential")
	// ErrInvalidCredential reports a credential that is not accepted.
	ErrInvalidCredential = errors.New("the credential is not accepted")
	// ErrRevoked is the cause of the end of a request whose credential was revoked,
	// or lost a role or a tenant.
	ErrRevoked = errors.New("the credential was revoked")
	// ErrExpired is that of one whose credential has expired.
	ErrExpired = errors.New("the credential has expired")
	// ErrUnavailable reports that it cannot be known whether a credential is
	// accepted: the database, or an issuer of tokens, is unavailable.
	ErrUnavailable = errors.New("the credential cannot be checked")
)

// TooManyError refuses a client that has sent too many invalid credentials.
type TooManyError struct{ RetryAfter time.Duration }

func (e *TooManyError) Error() string { return "too many invalid credentials from this address" }

// Request is what a request shows of its sender.
type Request struct {
	Bearer string // a key or token; empty without one
	// Certificate is that of the client, verified by the listener.
	Certificate *x509.Certificate
	// UID is the user at the other end of a Unix socket.
	UID *uint32
	// Address is that of the client; invalid for a Unix socket.
	Address netip.Addr
}

// Subject is what a credential other than a key says of its holder. Bindings give
// grants to subjects.
type Subject struct {
	Kind   SubjectKind
	Issuer string // of a token
	Name   string // the token's sub, the certificate's name, the uid in decimal
	// Claims are the other claims of a token that bindings may name: each is a list,
	// also where the token has one value.
	Claims  map[string][]string
	Expires time.Time
}

// SubjectKind is the kind of a Subject.
type SubjectKind string

// The kinds of subjects.
const (
	OIDCSubject SubjectKind = "oidc"
	CertSubject SubjectKind = "cert"
	UnixSubject SubjectKind = "unix"
)

// TokenVerifier verifies tokens of other issuers.
type TokenVerifier interface {
	// Verify returns the subject of a token. ErrInvalidCredential means that it is
	// not accepted, ErrNoCredential that no issuer is configured or that it has not
	// the form of a token, ErrUnavailable that the issuer's keys cannot be read.
	Verify(ctx context.Context, token string) (Subject, error)
}

// Authenticator knows the credentials that a server accepts.
type Authenticator interface {
	// IsOpen reports whether no credential is configured: a client of this machine
	// is an operator then.
	IsOpen() bool
	// Authenticate returns the principal of a request. Its errors are
	// ErrNoCredential, ErrInvalidCredential, ErrUnavailable and *TooManyError.
	Authenticate(ctx context.Context, r Request) (*Principal, error)
	// IsCredential reports whether a text is a key or token that is accepted, for one
	// that must not be passed on. It is not counted as an attempt.
	IsCredential(ctx context.Context, text string) bool
	// Follow calls end once, with ErrRevoked or ErrExpired, when the principal's
	// credential is not accepted any more or has other grants. stop ends that, and
	// returns when end is not running.
	Follow(p *Principal, end func(cause error)) (stop func())
}

type principalKey struct{}

// WithPrincipal returns a context of a request of the principal.
func WithPrincipal(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// From returns the principal of the request that a context belongs to: nil, which
// may do nothing, without one.
func From(ctx context.Context) *Principal {
	p, _ := ctx.Value(principalKey{}).(*Principal)
	return p
}
