package oidc

import (
	"errors"
	"strings"
	"testing"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/internal/oidctest"
)

// Whatever a client sends that the issuer has not signed is refused, without a panic
// and without a part of it in the error.
func FuzzVerify(f *testing.F) {
	i := oidctest.New(f)
	v, err := New(Issuer{URL: i.URL(), Audiences: []string{audience}})
	if err != nil {
		f.Fatal(err)
	}
	valid := i.Sign(i.Valid(audience, "alice"))
	other := oidctest.Sign(f, oidctest.NewKey(f, "k1"), nil, i.Valid(audience, "mallory"))
	for _, token := range []string{valid, other, valid + "x", "eyJ.e30.", "", strings.ToUpper(valid),
		oidctest.Forge(f, `{"alg":"none","crit":["b64"],"b64":false}`, i.Valid(audience, "mallory"), func(string) []byte { return nil }),
		oidctest.Forge(f, `{"alg":"ES256","kid":"k1","jwk":{"kty":"EC"},"x5c":["AA"]}`, i.Valid(audience, "mallory"), func(string) []byte { return make([]byte, 64) }),
		oidctest.Forge(f, `{"alg":"ES256","kid":"k1"}`, `{"iss":"`+i.URL()+`","aud":[[[[[[[[[[[[1]]]]]]]]]]]]}`, func(string) []byte { return nil }),
	} {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		_, err := v.Verify(t.Context(), token)
		// The last bits of base64 mean nothing: a token has several spellings.
		isValid := len(token) == len(valid) && token[:len(token)-1] == valid[:len(valid)-1]
		if err == nil && !isValid {
			t.Fatalf("accepted: %q", token)
		}
		if err == nil {
			return
		}
		if !errors.Is(err, auth.ErrInvalidCredential) && !errors.Is(err, auth.ErrNoCredential) {
			t.Fatalf("refused with %v", err)
		}
		if len(token) > 20 && strings.Contains(err.Error(), token[:20]) {
			t.Fatalf("the error has a part of the token: %v", err)
		}
	})
}
