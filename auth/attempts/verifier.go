package attempts

import (
	"context"
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"github.com/hostler/hostler/auth"
)

const (
	// maxKnownTokens bounds the tokens of each of two generations in a Verifier.
	maxKnownTokens = 5000
	// maxLimited bounds the verifications at once for addresses that are limited.
	maxLimited = 8
)

// Verifier verifies tokens for an Authenticator that a Limiter decorates. A token
// costs a signature, and perhaps a request to its issuer. Of the addresses that are
// limited, few are verified at once, and none waits for that: so they take no more
// than these, and a new token of a client that shares the address is accepted. One
// that was accepted before is verified in any case.
type Verifier struct {
	inner   auth.TokenVerifier
	limited chan struct{} // has an element for each verification of a limited address

	// mu guards what follows: hashes of tokens that were accepted.
	mu         sync.Mutex
	young, old map[[sha256.Size]byte]struct{}
}

var _ auth.TokenVerifier = (*Verifier)(nil)

// NewVerifier returns a Verifier of the tokens that inner accepts.
func NewVerifier(inner auth.TokenVerifier) *Verifier {
	return &Verifier{inner: inner, limited: make(chan struct{}, maxLimited), young: map[[sha256.Size]byte]struct{}{}}
}

// Verify implements auth.TokenVerifier. It returns *auth.TooManyError as well.
func (v *Verifier) Verify(ctx context.Context, token string) (auth.Subject, error) {
	if strings.Count(token, ".") != 2 { // not a JWT: it costs nothing
		return v.inner.Verify(ctx, token)
	}
	hash := sha256.Sum256([]byte(token))
	if wait, ok := ctx.Value(waitKey{}).(time.Duration); ok && !v.isKnown(hash) {
		select {
		case v.limited <- struct{}{}:
			defer func() { <-v.limited }()
		default:
			return auth.Subject{}, &auth.TooManyError{RetryAfter: wait}
		}
	}
	subject, err := v.inner.Verify(ctx, token)
	if err == nil {
		v.remember(hash)
	}
	return subject, err
}

func (v *Verifier) isKnown(hash [sha256.Size]byte) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, young := v.young[hash]
	_, old := v.old[hash]
	return young || old
}

// remember keeps a token that was accepted. The older generation goes when the
// younger one is full; whose tokens are used stay.
func (v *Verifier) remember(hash [sha256.Size]byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ok := v.young[hash]; ok {
		return
	}
	if len(v.young) >= maxKnownTokens {
		v.old, v.young = v.young, map[[sha256.Size]byte]struct{}{}
	}
	v.young[hash] = struct{}{}
}
