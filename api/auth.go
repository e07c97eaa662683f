package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
)

// minKeyLength is the minimum length of a key. Keys are compared by a fast
// hash, so they must be too long for a brute-force attack.
const minKeyLength = 16

// Keys are the API keys that are accepted.
type Keys struct {
	names  []string
	hashes [][sha256.Size]byte
}

// keyName matches the name before the colon of a line with a key.
var keyName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// ReadKeys reads a file with one key per line, each of 16 characters or more. A
// line may begin with a name and a colon: the name is shown in the log. Lines
// that begin with # are comments.
func ReadKeys(path string) (*Keys, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the API keys: %w", err)
	}
	keys, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("read the API keys of %s: %w", path, err)
	}
	return keys, nil
}

// parseKeys parses the lines. Its errors never quote a line, because it may
// contain a key.
func parseKeys(text []byte) (*Keys, error) {
	keys := &Keys{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		key := strings.TrimSpace(lines.Text())
		if key == "" || strings.HasPrefix(key, "#") {
			continue
		}
		name := fmt.Sprintf("line-%d", n)
		if before, rest, ok := strings.Cut(key, ":"); ok && keyName.MatchString(before) {
			name, key = before, strings.TrimSpace(rest)
		}
		if len(key) < minKeyLength {
			return nil, fmt.Errorf("line %d: the key is shorter than %d characters", n, minKeyLength)
		}
		if strings.ContainsAny(key, " \t") {
			return nil, fmt.Errorf("line %d: the key contains whitespace", n)
		}
		keys.names = append(keys.names, name)
		keys.hashes = append(keys.hashes, sha256.Sum256([]byte(key)))
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(keys.names) == 0 {
		return nil, errors.New("the file has no keys")
	}
	return keys, nil
}

// lookup returns the name of a key. It takes the same time for an invalid key
// as for a valid one, whatever its position.
func (k *Keys) lookup(key string) (name string, ok bool) {
	given := sha256.Sum256([]byte(key))
	found := -1
	for i := range k.hashes {
		if subtle.ConstantTimeCompare(given[:], k.hashes[i][:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return "", false
	}
	return k.names[found], true
}

// IsOpen implements auth.Authenticator.
func (k *Keys) IsOpen() bool { return false }

// Authenticate implements auth.Authenticator.
func (k *Keys) Authenticate(_ context.Context, r auth.Request) (*auth.Principal, error) {
	if r.Bearer == "" {
		return nil, auth.ErrNoCredential
	}
	name, ok := k.lookup(r.Bearer)
	if !ok {
		return nil, auth.ErrInvalidCredential
	}
	return &auth.Principal{Actor: "key:" + name, Name: name, Grants: []auth.Grant{{Role: auth.Operator}}}, nil
}

// IsCredential implements auth.Authenticator.
func (k *Keys) IsCredential(_ context.Context, text string) bool {
	_, ok := k.lookup(text)
	return ok
}

// Follow implements auth.Authenticator.
func (k *Keys) Follow(*auth.Principal, func(error)) (stop func()) { return func() {} }

// keyOf returns the key of a request.
func keyOf(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return r.Header.Get("X-API-Key")
}

// isIn reports whether a header has a credential.
func (a *API) isIn(ctx context.Context, header string) bool {
	return a.o.Auth != nil && slices.ContainsFunc(strings.Fields(header), func(text string) bool {
		return a.o.Auth.IsCredential(ctx, text)
	})
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

// asPrincipal returns the request as one of the principal. It ends, with the cause,
// when the credential does; release it when it is over.
func (a *API) asPrincipal(r *http.Request, p *auth.Principal) (_ *http.Request, release func()) {
	actor := actorOf(r, p)
	markActor(r.Context(), actor)
	ctx := auth.WithPrincipal(activity.WithActor(r.Context(), actor), p)
	if p == nil || a.o.Auth == nil {
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
