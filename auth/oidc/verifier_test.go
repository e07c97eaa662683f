package oidc

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/internal/oidctest"
)

const audience = "hostler"

// newVerifier returns a verifier of the issuers' tokens.
func newVerifier(t *testing.T, issuers ...*oidctest.Issuer) *Verifier {
	t.Helper()
	var all []Issuer
	for _, i := range issuers {
		one := Issuer{URL: i.URL(), Audiences: []string{audience, "other-of-ours"}}
		if strings.HasPrefix(i.URL(), "https:") {
			one.CAFile = i.CAFile()
		}
		all = append(all, one)
	}
	v, err := New(all...)
	require.NoError(t, err)
	return v
}

// requireRefused checks that a token is refused, and that the error has no part of it.
func requireRefused(t *testing.T, v *Verifier, token string) {
	t.Helper()
	_, err := v.Verify(t.Context(), token)
	require.ErrorIs(t, err, auth.ErrInvalidCredential)
	for part := range strings.SplitSeq(token, ".") {
		if len(part) > 8 {
			require.NotContains(t, err.Error(), part)
		}
	}
	require.NotContains(t, err.Error(), "mallory")
}

// A token of a configured issuer is accepted, with its subject and its claims.
func TestValidToken(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB) *oidctest.Issuer{"http": oidctest.New, "https": oidctest.NewTLS} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := start(t)
			c := i.Valid(audience, "alice")
			c["groups"], c["email_verified"], c["level"] = []any{"admins", "staff"}, true, 7
			c["kubernetes.io"] = map[string]any{"namespace": "apps", "serviceaccount": map[string]any{"name": "bot"}}
			c["nothing"], c["azp"] = nil, "program"
			s, err := newVerifier(t, i).Verify(t.Context(), i.Sign(c))
			require.NoError(t, err)
			require.WithinDuration(t, time.Unix(c["exp"].(int64), 0).Add(leeway), s.Expires, 0)
			s.Expires = time.Time{}
			require.Equal(t, auth.Subject{Kind: auth.OIDCSubject, Issuer: i.URL(), Name: "alice", Claims: map[string][]string{
				"aud": {audience}, "groups": {"admins", "staff"}, "email_verified": {"true"}, "level": {"7"}, "azp": {"program"},
				"kubernetes.io.namespace": {"apps"}, "kubernetes.io.serviceaccount.name": {"bot"}, "nothing": {},
			}}, s)
		})
	}
}

// Tokens of all accepted algorithms are accepted, with one of several audiences too.
func TestAlgorithmsAndAudiences(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	key := oidctest.NewRSAKey(t, "rsa")
	pss := key
	pss.ID, pss.Algorithm = "pss", jose.PS256
	i.SetKeys(key, pss, oidctest.NewKey(t, "ec"))
	v := newVerifier(t, i)
	c := i.Valid("", "alice")
	c["aud"] = []string{"elsewhere", "other-of-ours"}
	for _, k := range []oidctest.Key{key, pss} {
		_, err := v.Verify(t.Context(), oidctest.Sign(t, k, nil, c))
		require.NoError(t, err, k.Algorithm)
	}
	key.Algorithm = jose.RS512
	requireRefused(t, v, oidctest.Sign(t, key, nil, c)) // the key is for RS256
}

// What has not the form of a token is left to others: it may be a key.
func TestOtherCredentials(t *testing.T) {
	t.Parallel()
	none, err := New()
	require.NoError(t, err)
	i := oidctest.New(t)
	_, err = none.Verify(t.Context(), i.Sign(i.Valid(audience, "alice")))
	require.ErrorIs(t, err, auth.ErrNoCredential)
	v := newVerifier(t, i)
	for _, text := range []string{"", "hk_abc", "eyJhbGciOiJFUzI1NiJ9", "eyJ.eyJ.", "a.b.c", "eyJhbGciOiJFUzI1NiJ9.e30.a.b",
		"eyJhbGciOiJFUzI1NiJ9.e30. a", strings.Repeat("k", maxToken+1)} {
		_, err := v.Verify(t.Context(), text)
		require.ErrorIs(t, err, auth.ErrNoCredential, "%.40q", text)
	}
	require.Zero(t, i.Requests("/keys"))
}

// Claims that are missing, wrong or dangerous: each such token is refused, although
// its issuer has signed it.
func TestRefusedClaims(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	v := newVerifier(t, i)
	now := time.Now()
	deep := any("x")
	for range maxDepth + 2 {
		deep = map[string]any{"a": deep}
	}
	for name, change := range map[string]oidctest.Claims{
		"another audience":                   {"aud": "elsewhere", "azp": audience},
		"no audience":                        {"aud": nil, "azp": audience},
		"an empty audience":                  {"aud": ""},
		"an audience in an array":            {"aud": []any{[]any{audience}}},
		"a part of an audience":              {"aud": audience + "x"},
		"expired":                            {"exp": now.Add(-leeway - 5*time.Second).Unix()},
		"no end":                             {"exp": nil},
		"an end that is text":                {"exp": "9999999999"},
		"an end of no year":                  {"exp": 1e300},
		"a negative end":                     {"exp": -1},
		"not valid yet":                      {"nbf": now.Add(2 * leeway).Unix()},
		"nbf that is text":                   {"nbf": "soon"},
		"issued in the future":               {"iat": now.Add(2 * leeway).Unix()},
		"another issuer":                     {"iss": "https://elsewhere.example.com"},
		"a slash more":                       {"iss": i.URL() + "/"},
		"another case":                       {"iss": strings.ToUpper(i.URL())},
		"no issuer":                          {"iss": nil},
		"no subject":                         {"sub": nil},
		"an empty subject":                   {"sub": ""},
		"a subject that is a list":           {"sub": []any{"mallory"}},
		"a long subject":                     {"sub": strings.Repeat("x", maxName+1)},
		"a subject with a control character": {"sub": "mallory\n"},
		"a logout":                           {"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}},
		"a name by dots":                     {"a": map[string]any{"b": "1"}, "a.b": "2"},
		"too many values":                    {"groups": strings.Split(strings.Repeat("g", maxValues+1), "")},
		"a long value":                       {"groups": strings.Repeat("x", maxText+1)},
		"too deep":                           {"a": deep},
		"too long":                           {"a": strings.Split(strings.Repeat("x", maxToken), "")},
	} {
		t.Run(name, func(t *testing.T) {
			c := i.Valid(audience, "mallory")
			maps.Copy(c, change)
			maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
			requireRefused(t, v, i.Sign(c))
		})
	}
	_, err := v.Verify(t.Context(), i.Sign(i.Valid(audience, "alice")))
	require.NoError(t, err)
}

// Claims that readers of JSON understand differently are refused, or read as the issuer
// means them.
func TestAmbiguousClaims(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	v := newVerifier(t, i)
	payload := func(more string) string {
		return fmt.Sprintf(`{"iss":%q,"aud":%q,"exp":%d,%s}`, i.URL(), audience, time.Now().Add(time.Hour).Unix(), more)
	}
	for _, more := range []string{
		`"sub":"alice","sub":"mallory"`, `"sub":"alice","a":{"b":1,"b":2}`, `"sub":"alice","iss":"x"`,
		`"Sub":"mallory"`, `"sub":"\ud800"`, "\"sub\":\"mallory\xff\"", `"sub":"mallory"} {"a":"b"`,
	} {
		requireRefused(t, v, oidctest.Sign(t, i.Key(), nil, payload(more)))
	}
	for _, text := range []string{"[]", "null", `"x"`, "{", "", "{}"} {
		requireRefused(t, v, oidctest.Sign(t, i.Key(), nil, text))
	}
	s, err := v.Verify(t.Context(), oidctest.Sign(t, i.Key(), nil, payload(`"sub":"alice","Sub":"mallory","SUB":"mallory"`)))
	require.NoError(t, err)
	require.Equal(t, "alice", s.Name)
}

// Signatures that are missing, of another key, or of a key in the token: refused.
func TestRefusedSignatures(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	ours, own := oidctest.NewRSAKey(t, "ours"), oidctest.NewRSAKey(t, "own")
	second := oidctest.NewKey(t, "second")
	i.SetKeys(ours, second)
	v := newVerifier(t, i)
	c := i.Valid(audience, "mallory")
	der, err := x509.MarshalPKIXPublicKey(ours.Private.Public())
	require.NoError(t, err)
	mac := func(key []byte) func(string) []byte {
		return func(input string) []byte {
			h := hmac.New(sha256.New, key)
			h.Write([]byte(input))
			return h.Sum(nil)
		}
	}
	unsigned := func(string) []byte { return nil }
	header := func(alg string) map[string]any { return map[string]any{"alg": alg, "kid": "ours", "typ": "JWT"} }
	attacker := oidctest.New(t) // of the keys that tokens name
	attacker.SetKeys(own)
	named := own
	named.ID = "ours"
	public := jose.JSONWebKey{KeyID: "ours", Algorithm: "RS256", Key: own.Private.Public()}
	swapped := second
	swapped.ID = "ours"
	valid := oidctest.Sign(t, ours, nil, c)
	parts := strings.Split(valid, ".")
	other := strings.Split(oidctest.Sign(t, ours, nil, i.Valid(audience, "mallory-2")), ".")
	for name, token := range map[string]string{
		"none":                         oidctest.Forge(t, header("none"), c, unsigned),
		"None":                         oidctest.Forge(t, header("None"), c, unsigned),
		"no algorithm":                 oidctest.Forge(t, map[string]any{"kid": "ours"}, c, unsigned),
		"no signature":                 parts[0] + "." + parts[1] + ".",
		"another payload":              parts[0] + "." + other[1] + "." + parts[2],
		"HS256 with the PEM":           oidctest.Forge(t, header("HS256"), c, mac(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))),
		"HS256 with the DER":           oidctest.Forge(t, header("HS256"), c, mac(der)),
		"RS256 with HMAC":              oidctest.Forge(t, header("RS256"), c, mac(der)),
		"another key of the name":      oidctest.Sign(t, named, nil, c),
		"kid of another key":           oidctest.Sign(t, swapped, nil, c),
		"an unknown kid":               oidctest.Sign(t, own, nil, c),
		"no kid":                       oidctest.Sign(t, own, map[string]any{"kid": ""}, c),
		"a key in the token":           oidctest.Sign(t, named, map[string]any{"jwk": public}, c),
		"the address of a key":         oidctest.Sign(t, named, map[string]any{"jku": attacker.URL() + "/keys"}, c),
		"the address of a certificate": oidctest.Sign(t, named, map[string]any{"x5u": attacker.URL() + "/keys"}, c),
		"critical extensions":          oidctest.Sign(t, ours, map[string]any{"crit": []string{"b64"}, "b64": true}, c),
		"a logout token":               oidctest.Sign(t, ours, map[string]any{"typ": "logout+jwt"}, c),
		"a path as kid":                oidctest.Sign(t, own, map[string]any{"kid": "../../dev/null"}, c),
		"a list as kid":                oidctest.Forge(t, map[string]any{"alg": "none", "kid": "ours", "crit": []string{"exp"}}, c, unsigned),
	} {
		t.Run(name, func(t *testing.T) { requireRefused(t, v, token) })
	}
	require.Zero(t, attacker.Requests("/keys"))
	_, err = v.Verify(t.Context(), valid)
	require.NoError(t, err)
	_, err = v.Verify(t.Context(), oidctest.Sign(t, ours, map[string]any{"kid": ""}, c))
	require.NoError(t, err, "a token need not name its key")
}

// The keys and the audiences of an issuer are for its own tokens only.
func TestIssuersAreSeparate(t *testing.T) {
	t.Parallel()
	one, two := oidctest.New(t), oidctest.New(t)
	v, err := New(Issuer{URL: one.URL(), Audiences: []string{"a"}}, Issuer{URL: two.URL(), Audiences: []string{"b"}})
	require.NoError(t, err)
	_, err = v.Verify(t.Context(), one.Sign(one.Valid("a", "alice")))
	require.NoError(t, err)
	_, err = v.Verify(t.Context(), two.Sign(two.Valid("b", "alice")))
	require.NoError(t, err)
	requireRefused(t, v, one.Sign(one.Valid("b", "mallory")))
	requireRefused(t, v, oidctest.Sign(t, one.Key(), nil, two.Valid("b", "mallory")))

	two.SetKeys(one.Key()) // two issuers with the same key
	three := newVerifier(t, one)
	requireRefused(t, three, two.Sign(two.Valid(audience, "mallory")))
}

// One of two keys with the same id may have signed.
func TestTwoKeysOfAName(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	first, second := oidctest.NewKey(t, "same"), oidctest.NewKey(t, "same")
	i.SetKeys(first, second)
	v := newVerifier(t, i)
	for _, k := range []oidctest.Key{first, second} {
		_, err := v.Verify(t.Context(), oidctest.Sign(t, k, nil, i.Valid(audience, "alice")))
		require.NoError(t, err)
	}
	requireRefused(t, v, oidctest.Sign(t, oidctest.NewKey(t, "same"), nil, i.Valid(audience, "mallory")))
}

// A symmetric key, or a private one, in a key set is no key that verifies.
func TestKeysThatAreNotPublic(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	secret := []byte(strings.Repeat("s", 32))
	i.ServeKeys = func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"keys":[{"kty":"oct","kid":"k1","k":%q},{"kty":"later","kid":"k1"},5]}`, base64.RawURLEncoding.EncodeToString(secret))
	}
	requireRefused(t, newVerifier(t, i), oidctest.Forge(t, map[string]any{"alg": "HS256", "kid": "k1"}, i.Valid(audience, "mallory"), func(input string) []byte {
		h := hmac.New(sha256.New, secret)
		h.Write([]byte(input))
		return h.Sum(nil)
	}))
}

// The configuration is checked before anything is sent.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	ok := Issuer{URL: "https://issuer.example.com", Audiences: []string{"a"}, JWKSURL: "https://keys.example.com/keys?tenant=1"}
	_, err := New(ok, Issuer{URL: "http://127.0.0.1:1/realm", Audiences: []string{"a"}}, Issuer{URL: "http://localhost", Audiences: []string{"a"}})
	require.NoError(t, err)
	for want, change := range map[string]func(*Issuer){
		"https://issuer":   func(i *Issuer) { i.URL = "issuer" },
		"https URL":        func(i *Issuer) { i.URL = "http://issuer.example.com" },
		"written like":     func(i *Issuer) { i.URL = "https://user:password@issuer.example.com" },
		"audiences":        func(i *Issuer) { i.Audiences = nil },
		"meant for other":  func(i *Issuer) { i.Audiences = []string{""} },
		"jwks_uri":         func(i *Issuer) { i.JWKSURL = "http://10.0.0.1/keys" },
		"read the CA file": func(i *Issuer) { i.CAFile = "/dev/null" },
		"configured twice": func(i *Issuer) {},
	} {
		i := ok
		change(&i)
		_, err := New(ok, i)
		require.ErrorContains(t, err, want)
	}
}
