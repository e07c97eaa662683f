package request

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/hostler/hostler/hooks"
)

// Google obtains access tokens of Google Cloud. Each call obtains a new one; its
// errors have no secret. It is safe for concurrent use.
type Google interface {
	// DefaultToken returns a token for the server's own credentials.
	DefaultToken(ctx context.Context) (Token, error)
	// ServiceAccountToken returns a token for the service account of a key. It sends
	// requests with transport.
	ServiceAccountToken(ctx context.Context, transport http.RoundTripper, key []byte) (Token, error)
}

// Token is an access token.
type Token struct {
	Value   string
	Expires time.Time
}

// Tokens are renewed renewBefore they expire. While the present one is valid, a
// renewal may take renewTimeout; if it fails, the present one is used.
const (
	renewBefore  = 5 * time.Minute
	renewTimeout = 2 * time.Second
	minValidity  = 30 * time.Second
)

// tokens caches access tokens.
type tokens struct {
	google     Google
	hasDefault bool  // the server's own credentials may be used
	hosts      rules // for requests to these
	transport  http.RoundTripper
	redactor   *Redactor

	mu     sync.Mutex // guards cached
	cached map[[sha256.Size]byte]*cachedToken
}

// cachedToken is the token of one credential.
type cachedToken struct {
	renewing chan struct{} // of size 1: full while one call uses token
	token    Token
}

// get returns a valid token for a message.
func (t *tokens) get(ctx context.Context, m *message) (string, error) {
	if t.google == nil {
		return "", fmt.Errorf("%w: the server has no support for it", errInvalid)
	}
	if m.action.Auth.Type == hooks.AuthGCPServiceAccount {
		key := []byte(m.credential.Value)
		return t.cachedToken(ctx, sha256.Sum256(key), func(ctx context.Context) (Token, error) {
			return t.google.ServiceAccountToken(ctx, t.transport, key)
		})
	}
	switch host := m.url.Hostname(); {
	case !t.hasDefault:
		return "", fmt.Errorf("%w: the server does not permit its own credentials", errInvalid)
	case m.url.Scheme != "https":
		return "", fmt.Errorf("%w: the server's own credentials are sent with https only", errInvalid)
	case !t.hosts.hasHost(host):
		return "", fmt.Errorf("%w: the server's own credentials are not sent to %s", errInvalid, host)
	}
	return t.cachedToken(ctx, [sha256.Size]byte{}, t.google.DefaultToken)
}

// cachedToken returns the cached token of a credential, or a new one.
func (t *tokens) cachedToken(ctx context.Context, id [sha256.Size]byte, renew func(context.Context) (Token, error)) (string, error) {
	c := t.entry(id)
	select {
	case c.renewing <- struct{}{}:
		defer func() { <-c.renewing }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	remaining := time.Until(c.token.Expires)
	if remaining > renewBefore {
		return c.token.Value, nil
	}
	isValid := remaining > minValidity
	if isValid {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, renewTimeout)
		defer cancel()
	}
	token, err := renew(ctx)
	if err == nil && token.Value == "" {
		err = errors.New("the token is empty")
	}
	if err != nil && isValid {
		return c.token.Value, nil
	}
	if err != nil {
		return "", err
	}
	t.redactor.Add(token.Value)
	c.token = token
	return token.Value, nil
}

// maxTokens is the number of credentials from which unused ones are removed.
const maxTokens = 256

func (t *tokens) entry(id [sha256.Size]byte) *cachedToken {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.cached[id]; c != nil {
		return c
	}
	if len(t.cached) >= maxTokens || t.cached == nil {
		t.cached = map[[sha256.Size]byte]*cachedToken{}
	}
	c := &cachedToken{renewing: make(chan struct{}, 1)}
	t.cached[id] = c
	return c
}
