// Package oidc verifies tokens of other issuers: of OpenID Connect providers, and
// of Kubernetes API servers, which issue those of service accounts.
//
// It promises that a token is accepted only if one of the configured issuers has
// signed it, with a key of its own and an asymmetric algorithm, for one of the
// audiences configured for that issuer, and while it is valid. Clients without a
// credential cause few requests to an issuer, however many tokens they make up. It
// leaves to bindings, in package credential, what the holder of a token may do.
package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	goidc "github.com/coreos/go-oidc/v3/oidc"

	"github.com/hostler/hostler/auth"
)

// Limits of tokens and of the configuration.
const (
	maxToken     = 16 << 10
	maxIssuers   = 50
	maxAudiences = 50
	// leeway is how much the clocks of an issuer and of this server may differ.
	leeway = 30 * time.Second
)

// Issuer is the configuration of one issuer.
type Issuer struct {
	// URL is the value of iss in its tokens, exactly.
	URL string
	// Audiences are those whose tokens are accepted; a token needs one of them.
	Audiences []string
	// JWKSURL is where its keys are; empty: where its discovery document says.
	JWKSURL string
	// CAFile has the certificates that its servers are verified with; empty: the
	// system's. It is read for each request, since it may be replaced.
	CAFile string
	// TokenFile has a bearer token for requests to the issuer: API servers of
	// Kubernetes need one. It is read for each request, and sent to the host of
	// JWKSURL, or else of URL, only.
	TokenFile string
}

// check returns an error that names what is wrong with the configuration.
func (i Issuer) check() error {
	if err := checkURL(i.URL); err != nil {
		return fmt.Errorf("issuer %.200q: %w", i.URL, err)
	}
	if len(i.Audiences) == 0 || len(i.Audiences) > maxAudiences || slices.Contains(i.Audiences, "") {
		return fmt.Errorf("issuer %.200q: name its audiences, 1 to %d: without them it would accept tokens that are meant for other programs", i.URL, maxAudiences)
	}
	if i.JWKSURL != "" {
		if err := checkEndpoint(i.JWKSURL); err != nil {
			return fmt.Errorf("issuer %.200q: jwks_uri: %w", i.URL, err)
		}
	}
	if _, err := newSource(i).client(); err != nil {
		return fmt.Errorf("issuer %.200q: %w", i.URL, err)
	}
	return nil
}

// checkURL returns an error unless a URL is one that keys and tokens may be
// exchanged with: https, or http on this machine.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.RawQuery != "":
		return errors.New("it is written like https://issuer.example.com")
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil
	}
	return errors.New("it must be an https URL: anyone on the way could replace the keys (http is for issuers on this machine)")
}

// checkEndpoint is checkURL for a URL that may have a query.
func checkEndpoint(text string) error {
	address, _, _ := strings.Cut(text, "?")
	return checkURL(address)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// Verifier verifies the tokens of some issuers. It may be used by many goroutines
// at once.
type Verifier struct {
	issuers map[string]*issuer
	now     func() time.Time
}

var _ auth.TokenVerifier = (*Verifier)(nil)

// issuer is an issuer with its keys.
type issuer struct {
	Issuer
	keys *keyStore
}

// New returns a verifier of the issuers' tokens. It sends no request: an issuer that
// is unavailable must not prevent the start of a server.
func New(issuers ...Issuer) (*Verifier, error) {
	if len(issuers) > maxIssuers {
		return nil, fmt.Errorf("%d issuers: at most %d", len(issuers), maxIssuers)
	}
	v := &Verifier{issuers: map[string]*issuer{}, now: time.Now}
	for _, i := range issuers {
		if err := i.check(); err != nil {
			return nil, err
		}
		if v.issuers[i.URL] != nil {
			return nil, fmt.Errorf("issuer %.200q is configured twice", i.URL)
		}
		v.issuers[i.URL] = &issuer{i, newKeyStore(newSource(i).fetch, func() time.Time { return v.now() })}
	}
	return v, nil
}

// Problems describes the issuers whose keys could not be read the last time, for the
// operator: clients get no reason.
func (v *Verifier) Problems() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(v.issuers)) {
		if err := v.issuers[name].keys.problem(); err != nil {
			all = append(all, fmt.Sprintf("the keys of the issuer %s cannot be read: %.300q", name, err.Error()))
		}
	}
	return all
}

// Verify implements auth.TokenVerifier.
func (v *Verifier) Verify(ctx context.Context, token string) (auth.Subject, error) {
	if len(v.issuers) == 0 {
		return auth.Subject{}, auth.ErrNoCredential
	}
	parsed, ok := parse(token)
	if !ok {
		return auth.Subject{}, auth.ErrNoCredential
	}
	subject, err := v.verify(ctx, token, parsed)
	if err != nil && !errors.Is(err, auth.ErrUnavailable) {
		return auth.Subject{}, fmt.Errorf("%w: %w", auth.ErrInvalidCredential, err)
	}
	return subject, err
}

// verify verifies what has the form of a token. No error has a part of it.
func (v *Verifier) verify(ctx context.Context, token string, t unverified) (auth.Subject, error) {
	if len(token) > maxToken {
		return auth.Subject{}, fmt.Errorf("the token has more than %d bytes", maxToken)
	}
	name, err := t.issuer()
	if err != nil {
		return auth.Subject{}, err
	}
	i := v.issuers[name]
	if i == nil {
		return auth.Subject{}, errors.New("the token is of an issuer that is not configured")
	}
	if err := t.header.check(); err != nil {
		return auth.Subject{}, err
	}
	keys, err := i.keys.find(ctx, t.header.KeyID, t.header.Algorithm)
	if err != nil {
		return auth.Subject{}, fmt.Errorf("issuer %s: %w", i.URL, err)
	}
	payload, err := verifySignature(ctx, i.URL, token, keys)
	if err != nil {
		return auth.Subject{}, err
	}
	return i.subject(payload, v.now())
}

// verifySignature returns the payload of a token that one of the keys has signed.
// What go-oidc checks only in part, the times and the audience, is left to subject.
func verifySignature(ctx context.Context, issuer, token string, keys keySet) ([]byte, error) {
	verifier := goidc.NewVerifier(issuer, keys, &goidc.Config{
		SupportedSigningAlgs: algorithmNames(), SkipClientIDCheck: true, SkipExpiryCheck: true,
	})
	verified, err := verifier.Verify(ctx, token)
	if err != nil {
		return nil, errors.New("the signature or the form of the token is not valid") // err may have parts of the token
	}
	var payload json.RawMessage
	if err := verified.Claims(&payload); err != nil {
		return nil, errors.New("the claims of the token cannot be read")
	}
	return payload, nil
}

// subject returns the subject of a verified payload, unless the token is for others,
// not valid yet, or not valid any more.
func (i *issuer) subject(payload []byte, now time.Time) (auth.Subject, error) {
	c, err := readClaims(payload)
	if err != nil {
		return auth.Subject{}, err
	}
	expires, hasEnd := c.time("exp")
	from, hasStart := c.time("nbf")
	issued, isDated := c.time("iat")
	switch {
	case c.text("iss") != i.URL:
		return auth.Subject{}, errors.New("the token is of another issuer")
	case !slices.ContainsFunc(c.values("aud"), func(a string) bool { return slices.Contains(i.Audiences, a) }):
		return auth.Subject{}, errors.New("the token is for another audience")
	case !hasEnd:
		return auth.Subject{}, errors.New("the token has no time of its end (exp)")
	case !now.Before(expires.Add(leeway)):
		return auth.Subject{}, errors.New("the token has expired")
	case c.has("nbf") && (!hasStart || from.After(now.Add(leeway))):
		return auth.Subject{}, errors.New("the token is not valid yet (nbf)")
	case c.has("iat") && (!isDated || issued.After(now.Add(leeway))):
		return auth.Subject{}, errors.New("the token was issued in the future (iat)")
	case c.has("events"):
		return auth.Subject{}, errors.New("the token reports an event, such as a logout, and is no credential")
	case !isName(c.text("sub")):
		return auth.Subject{}, errors.New("the token has no subject (sub) that can be used")
	}
	other, err := c.others()
	if err != nil {
		return auth.Subject{}, err
	}
	return auth.Subject{
		Kind: auth.OIDCSubject, Issuer: i.URL, Name: c.text("sub"), Claims: other, Expires: expires.Add(leeway),
	}, nil
}
