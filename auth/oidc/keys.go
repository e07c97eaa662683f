package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/internal/singleflight"
)

// Times of keys.
const (
	// fetchInterval is the minimum time between two requests for the keys of an
	// issuer, however many tokens with unknown keys arrive.
	fetchInterval = 10 * time.Second
	// defaultAge is how long keys are used before they are read again, if the issuer
	// does not define it; maxAge bounds what it defines.
	defaultAge = 10 * time.Minute
	maxAge     = time.Hour
	// maxStale is how long keys are used while the issuer is unavailable.
	maxStale = 24 * time.Hour
)

// maxKeys bounds the keys of an issuer. Each is tried for a token that names none.
const maxKeys = 50

// errUnknownKey reports a token whose key the issuer does not have.
var errUnknownKey = errors.New("the token is signed with a key that the issuer does not have")

// keySet are keys that may have signed a token. It implements KeySet of go-oidc,
// whose own one requests the keys again for each unknown key, without a limit of
// their size.
type keySet []jose.JSONWebKey

// VerifySignature returns the payload of a token that one of the keys has signed.
func (s keySet) VerifySignature(_ context.Context, token string) ([]byte, error) {
	signed, err := jose.ParseSigned(token, algorithms)
	if err != nil {
		return nil, errors.New("the token has no signature")
	}
	for _, key := range s {
		if payload, err := signed.Verify(key.Key); err == nil {
			return payload, nil
		}
	}
	return nil, errors.New("the signature is not valid")
}

// parseKeys parses a key set, without the keys that verify no signature.
func parseKeys(text []byte) (keySet, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if json.Unmarshal(text, &set) != nil || set.Keys == nil {
		return nil, errors.New("its keys are not a JSON Web Key Set")
	}
	keys := keySet{}
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) != nil || !isVerifier(key) {
			continue
		}
		if keys = append(keys, key); len(keys) > maxKeys {
			return nil, fmt.Errorf("it has more than %d keys", maxKeys)
		}
	}
	return keys, nil
}

// isVerifier reports whether a key is public and for signatures.
func isVerifier(key jose.JSONWebKey) bool {
	if key.Use != "" && key.Use != "sig" {
		return false
	}
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= 2048 && k.N.BitLen() <= 8192
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// fetched is what an issuer has answered.
type fetched struct {
	keys keySet
	age  time.Duration // 0: not defined
}

// keyStore keeps the keys of one issuer. They are read when they are needed.
type keyStore struct {
	fetch func(context.Context) (fetched, error)
	now   func() time.Time
	calls singleflight.Group[struct{}, struct{}, struct{}]

	mu      sync.Mutex // guards the fields below
	keys    keySet
	read    time.Time // when keys were read; zero: never
	freshTo time.Time
	attempt time.Time // the end of the last request
	failure error     // its error
}

func newKeyStore(fetch func(context.Context) (fetched, error), now func() time.Time) *keyStore {
	return &keyStore{fetch: fetch, now: now}
}

// find returns the keys that may have signed a token with a key id and an algorithm.
// Its errors are errUnknownKey and auth.ErrUnavailable.
func (s *keyStore) find(ctx context.Context, id, algorithm string) (keySet, error) {
	keys, fresh, due := s.known(id, algorithm)
	if len(keys) > 0 && fresh {
		return keys, nil
	}
	if due {
		if err := s.refresh(ctx, len(keys) == 0); err != nil {
			return nil, err
		}
		keys, _, _ = s.known(id, algorithm)
	}
	if len(keys) > 0 {
		return keys, nil
	}
	if err := s.problem(); err != nil {
		return nil, fmt.Errorf("%w: %w", auth.ErrUnavailable, err)
	}
	return nil, errUnknownKey
}

// problem returns the error of the last request.
func (s *keyStore) problem() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// known returns the keys that match, whether they are used without a request, and
// whether a request may be sent.
func (s *keyStore) known(id, algorithm string) (keys keySet, fresh, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	fresh = now.Before(s.freshTo)
	due = s.attempt.IsZero() || !now.Before(s.attempt.Add(fetchInterval))
	if s.read.IsZero() || !now.Before(s.read.Add(maxStale)) {
		return nil, fresh, due
	}
	for _, key := range s.keys {
		if (id == "" || key.KeyID == id) && (key.Algorithm == "" || key.Algorithm == algorithm) {
			keys = append(keys, key)
		}
	}
	return keys, fresh, due
}

// refresh reads the keys. One caller sends the request; the others wait for it if
// they need it.
func (s *keyStore) refresh(ctx context.Context, wait bool) error {
	call, first := s.calls.Join(ctx, struct{}{}, struct{}{})
	if !first {
		if !wait {
			return nil
		}
		if err := call.Wait(ctx); err != nil {
			return fmt.Errorf("%w: %w", auth.ErrUnavailable, err)
		}
		return nil
	}
	defer call.End()
	if _, _, due := s.known("", ""); !due { // another call has ended since
		return nil
	}
	// The request outlives its caller: one that leaves at once must not use the time
	// until the next.
	got, err := s.fetch(call.Context())
	s.record(got, err)
	return nil
}

// record records the result of a request. Keys that the issuer does not have any
// more are not accepted from here on; without an answer the known ones are.
func (s *keyStore) record(got fetched, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.attempt, s.failure = now, err
	if err != nil {
		return
	}
	age := got.age
	if age == 0 {
		age = defaultAge
	}
	s.keys, s.read = slices.Clone(got.keys), now
	s.freshTo = now.Add(min(max(age, fetchInterval), maxAge))
}
