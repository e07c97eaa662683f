package oidc

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// algorithms are those that tokens may be signed with. All are asymmetric: with
// another one, such as HS256, anyone who has a public key could sign.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

func algorithmNames() []string {
	names := make([]string, len(algorithms))
	for i, a := range algorithms {
		names[i] = string(a)
	}
	return names
}

// tokenTypes are the types of tokens that are credentials, in lower case. Issuers sign
// tokens of other types with the same keys, such as those that report a logout.
var tokenTypes = []string{"", "jwt", "at+jwt", "application/at+jwt"}

// form is the form of a token: a header, a payload and a signature.
var form = regexp.MustCompile(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*$`)

// header is what is read of a token's header. A key in it (jwk), and the address of
// one (jku, x5u), are ignored: keys are those of the issuer.
type header struct {
	Algorithm string          `json:"alg"`
	KeyID     string          `json:"kid"`
	Type      string          `json:"typ"`
	Critical  json.RawMessage `json:"crit"`
}

func (h header) check() error {
	switch {
	case !slices.Contains(algorithms, jose.SignatureAlgorithm(h.Algorithm)):
		return errors.New("the token is signed with an algorithm that is not accepted")
	case !slices.Contains(tokenTypes, strings.ToLower(h.Type)):
		return errors.New("the token has a type that is not accepted")
	case len(h.Critical) > 0:
		return errors.New("the token has extensions that are not understood (crit)")
	}
	return nil
}

// unverified is a token whose signature was not verified.
type unverified struct {
	header  header
	payload []byte
}

// parse reports whether a text has the form of a token, and returns its parts. A
// text that is too long has no parts that are read.
func parse(token string) (unverified, bool) {
	if !strings.HasPrefix(token, "ey") { // {" in base64
		return unverified{}, false
	}
	if len(token) > maxToken {
		return unverified{}, true
	}
	if !form.MatchString(token) {
		return unverified{}, false
	}
	first, rest, _ := strings.Cut(token, ".")
	second, _, _ := strings.Cut(rest, ".")
	text, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		return unverified{}, false
	}
	var t unverified
	if json.Unmarshal(text, &t.header) != nil {
		return unverified{}, false
	}
	t.payload, err = base64.RawURLEncoding.DecodeString(second)
	return t, err == nil
}

// issuer returns which issuer the token claims to be of.
func (t unverified) issuer() (string, error) {
	c, err := readClaims(t.payload)
	if err != nil {
		return "", err
	}
	return c.text("iss"), nil
}

// Expiry returns when a token ends, as it says itself: nothing of it is verified. It
// is for the holder of a token, who refreshes it in time.
func Expiry(token string) (time.Time, bool) {
	t, ok := parse(token)
	if !ok {
		return time.Time{}, false
	}
	c, err := readClaims(t.payload)
	if err != nil {
		return time.Time{}, false
	}
	return c.time("exp")
}
