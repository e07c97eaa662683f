// Package oidctest is an issuer of OpenID Connect tokens for tests: it serves its
// discovery document, its keys, which can be replaced, and the device authorization
// flow over real HTTP or HTTPS.
//
// It signs whatever a test asks for, also what no issuer would.
package oidctest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Key is a key of an issuer.
type Key struct {
	ID        string
	Algorithm jose.SignatureAlgorithm
	Private   crypto.Signer
}

// NewKey returns a new key for ES256.
func NewKey(t testing.TB, id string) Key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return Key{id, jose.ES256, private}
}

// NewRSAKey returns a new key for RS256.
func NewRSAKey(t testing.TB, id string) Key {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return Key{id, jose.RS256, private}
}

// Issuer is an issuer. Its fields may be changed before requests that they are for.
type Issuer struct {
	Server *httptest.Server
	// Issuer is the issuer that it describes itself as: by default its URL.
	Issuer string
	// Header is added to answers with keys.
	Header http.Header
	// ServeKeys replaces the answer with keys.
	ServeKeys http.HandlerFunc

	t      testing.TB
	mu     sync.Mutex // guards the fields below
	keys   []Key
	counts map[string]int // of requests, by path
	bearer []string       // the Authorization headers of requests for keys
	device deviceFlow
}

// New returns an issuer on plain HTTP with one key, k1. It is closed when the test
// ends.
func New(t testing.TB) *Issuer { return start(t, (*httptest.Server).Start) }

// NewTLS is New on HTTPS.
func NewTLS(t testing.TB) *Issuer { return start(t, (*httptest.Server).StartTLS) }

func start(t testing.TB, start func(*httptest.Server)) *Issuer {
	t.Helper()
	i := &Issuer{t: t, keys: []Key{NewKey(t, "k1")}, counts: map[string]int{}, Header: http.Header{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.discovery)
	mux.HandleFunc("GET /keys", i.serveKeys)
	mux.HandleFunc("POST /device", i.authorizeDevice)
	mux.HandleFunc("POST /token", i.giveToken)
	i.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		i.counts[r.URL.Path]++
		i.mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	start(i.Server)
	t.Cleanup(i.Server.Close)
	i.Issuer = i.Server.URL
	return i
}

// URL returns the URL of the issuer.
func (i *Issuer) URL() string { return i.Server.URL }

// CAFile writes the certificate of an issuer on HTTPS to a file.
func (i *Issuer) CAFile() string {
	i.t.Helper()
	path := filepath.Join(i.t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Server.Certificate().Raw})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		i.t.Fatal(err)
	}
	return path
}

// SetKeys replaces the keys. Tokens are signed with the first.
func (i *Issuer) SetKeys(keys ...Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = slices.Clone(keys)
}

// Key returns the key that tokens are signed with.
func (i *Issuer) Key() Key {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys[0]
}

// Requests returns how many requests a path had.
func (i *Issuer) Requests(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.counts[path]
}

// KeyCredentials returns the Authorization headers of the requests for keys.
func (i *Issuer) KeyCredentials() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.bearer)
}

func (i *Issuer) discovery(w http.ResponseWriter, _ *http.Request) {
	i.answer(w, map[string]any{
		"issuer": i.Issuer, "jwks_uri": i.Server.URL + "/keys", "token_endpoint": i.Server.URL + "/token",
		"device_authorization_endpoint": i.Server.URL + "/device", "scopes_supported": []string{"openid", "offline_access"},
	})
}

func (i *Issuer) serveKeys(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.bearer = append(i.bearer, r.Header.Get("Authorization"))
	keys := slices.Clone(i.keys)
	i.mu.Unlock()
	if i.ServeKeys != nil {
		i.ServeKeys(w, r)
		return
	}
	maps.Copy(w.Header(), i.Header)
	set := jose.JSONWebKeySet{}
	for _, k := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{KeyID: k.ID, Algorithm: string(k.Algorithm), Use: "sig", Key: k.Private.Public()})
	}
	i.answer(w, set)
}

func (i *Issuer) answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		i.t.Errorf("answer of the issuer: %v", err)
	}
}

// Claims are claims of a token.
type Claims = map[string]any

// Valid returns the claims of a token for an audience and a subject that is valid for
// an hour.
func (i *Issuer) Valid(audience, subject string) Claims {
	now := time.Now()
	return Claims{"iss": i.Issuer, "aud": audience, "sub": subject, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
}

// Sign returns a token with the claims.
func (i *Issuer) Sign(c Claims) string { return Sign(i.t, i.Key(), nil, c) }

// Sign returns a token with the claims, or a payload that is a string, signed with a
// key. The header has its id and algorithm, unless extra has others.
func Sign(t testing.TB, k Key, extra map[string]any, payload any) string {
	t.Helper()
	options := (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", k.ID)
	for name, value := range extra {
		options.WithHeader(jose.HeaderKey(name), value)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.Algorithm, Key: k.Private}, options)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(encode(t, payload))
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// Forge returns a token with a header, a payload and a signature that sign makes of
// what is to be signed.
func Forge(t testing.TB, header, payload any, sign func(input string) []byte) string {
	t.Helper()
	input := base64.RawURLEncoding.EncodeToString(encode(t, header)) + "." + base64.RawURLEncoding.EncodeToString(encode(t, payload))
	return input + "." + base64.RawURLEncoding.EncodeToString(sign(input))
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	if text, ok := v.(string); ok {
		return []byte(text)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
