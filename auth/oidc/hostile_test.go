package oidc

import (
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/oidctest"
)

func encoded(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// Keys that anyone could sign with, or that are no keys, verify nothing, and the others
// of the set do.
func TestWeakKeys(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	good := i.Key()
	public, err := json.Marshal(jose.JSONWebKey{KeyID: good.ID, Key: good.Private.Public()})
	require.NoError(t, err)
	p, q, err := primes()
	require.NoError(t, err)
	weak := map[string]string{
		"RSA of 512 bits":        fmt.Sprintf(`{"kty":"RSA","kid":"k","n":%q,"e":"AQAB"}`, encoded(new(big.Int).Mul(p, q).Bytes())),
		"RSA with exponent 1":    fmt.Sprintf(`{"kty":"RSA","kid":"k","n":%q,"e":"AQ"}`, encoded(append([]byte{0xff}, make([]byte, 255)...))),
		"RSA with exponent 0":    fmt.Sprintf(`{"kty":"RSA","kid":"k","n":%q,"e":"AA"}`, encoded(append([]byte{0xff}, make([]byte, 255)...))),
		"RSA with a long one":    fmt.Sprintf(`{"kty":"RSA","kid":"k","n":%q,"e":%q}`, encoded(append([]byte{0xff}, make([]byte, 255)...)), encoded(append([]byte{1}, make([]byte, 64)...))),
		"RSA of 64 kbit":         fmt.Sprintf(`{"kty":"RSA","kid":"k","n":%q,"e":"AQAB"}`, encoded(append([]byte{0xff}, make([]byte, 8191)...))),
		"a point off the curve":  fmt.Sprintf(`{"kty":"EC","crv":"P-256","kid":"k","x":%q,"y":%q}`, encoded(elliptic.P256().Params().Gx.Bytes()), encoded(elliptic.P256().Params().Gx.Bytes())),
		"the point at infinity":  fmt.Sprintf(`{"kty":"EC","crv":"P-256","kid":"k","x":%q,"y":%q}`, encoded(make([]byte, 32)), encoded(make([]byte, 32))),
		"an Ed25519 key of 1":    `{"kty":"OKP","crv":"Ed25519","kid":"k","x":"AA"}`,
		"an Ed25519 key of zero": fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","kid":"k","x":%q}`, encoded(make([]byte, 32))),
		"a key for encryption":   strings.Replace(string(public), `"kid"`, `"use":"enc","kid"`, 1),
		"one of another curve":   `{"kty":"EC","crv":"secp256k1","kid":"k","x":"AA","y":"AA"}`,
	}
	for name, text := range weak {
		t.Run(name, func(t *testing.T) {
			set := text
			i := oidctest.New(t)
			i.SetKeys(good)
			i.ServeKeys = func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"keys":[%s]}`, set) //nolint:errcheck // the test sees it
			}
			v := newVerifier(t, i)
			for _, alg := range []string{"RS256", "PS256", "ES256", "EdDSA"} {
				for _, signature := range [][]byte{nil, {0}, {1}, make([]byte, 64), make([]byte, 256), pkcs1("x")} {
					for _, kid := range []string{"k", "", good.ID} {
						requireRefused(t, v, oidctest.Forge(t, map[string]any{"alg": alg, "kid": kid}, i.Valid(audience, "mallory"), func(string) []byte { return signature }))
					}
				}
			}
			set = text + "," + string(public)
			_, err := newVerifier(t, i).Verify(t.Context(), i.Sign(i.Valid(audience, "alice")))
			require.NoError(t, err)
		})
	}
}

// primes returns the primes of a key that can be factored.
func primes() (p, q *big.Int, err error) {
	if p, err = rand.Prime(rand.Reader, 256); err == nil {
		q, err = rand.Prime(rand.Reader, 256)
	}
	return p, q, err
}

// pkcs1 returns something that has the size of a signature.
func pkcs1(text string) []byte {
	block := append([]byte{0, 1}, []byte(strings.Repeat("\xff", 253-len(text)))...)
	return append(append(block, 0), text...)
}

// A header that readers understand differently signs nothing.
func TestAmbiguousHeaders(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	key := oidctest.NewRSAKey(t, "k")
	i.SetKeys(key)
	v := newVerifier(t, i)
	_, err := v.Verify(t.Context(), oidctest.Sign(t, key, nil, i.Valid(audience, "alice")))
	require.NoError(t, err)
	payload, err := json.Marshal(i.Valid(audience, "mallory"))
	require.NoError(t, err)
	for _, header := range []string{
		`{"alg":"none","alg":"RS256","kid":"k"}`, `{"alg":"RS256","alg":"none","kid":"k"}`, `{"alg":"none","ALG":"RS256","kid":"k"}`,
		`{"ALG":"RS256","kid":"k"}`, `{"alg":"RS256","kid":"k","b64":false}`, `{"alg":"RS256","kid":"k","crit":[]}`, `{"alg":"RS256","kid":"k","crit":null}`,
		`{"alg":"RS256","kid":"k","zip":"DEF"}`, `{"alg":["RS256"],"kid":"k"}`, `{"alg":"RS256\u0000","kid":"k"}`, strings.Repeat(`{"a":`, 3000) + `1` + strings.Repeat(`}`, 3000),
	} {
		for _, signature := range []string{"", "AA", encoded(make([]byte, 256))} {
			_, err := v.Verify(t.Context(), encoded([]byte(header))+"."+encoded(payload)+"."+signature)
			require.Error(t, err, header)
		}
	}
}

// Tokens that are refused leave neither goroutines nor memory behind, also those that
// wait for an issuer.
func TestRefusedTokensLeaveNothing(t *testing.T) {
	i := oidctest.New(t)
	v, _ := newClockedVerifier(t, i) // no key is read again, however slow the machine is
	_, err := v.Verify(t.Context(), i.Sign(i.Valid(audience, "alice")))
	require.NoError(t, err)
	c := i.Valid(audience, "mallory")
	c["groups"] = strings.Split(strings.Repeat("g", 900), "")
	use := func(n int) {
		for j := range n {
			_, err := v.Verify(t.Context(), oidctest.Forge(t, map[string]any{"alg": "ES256", "kid": fmt.Sprint(j)}, c, func(string) []byte { return make([]byte, 64) }))
			require.Error(t, err)
		}
	}
	use(100)
	goroutines := runtime.NumGoroutine()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	use(5000)
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+2)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(1<<20))
}
