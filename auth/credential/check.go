package credential

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hostler/hostler/auth"
)

// Limits of what a key or a binding has.
const (
	maxGrants     = 20
	maxGrantBytes = 64 << 10
	maxClaims     = 20
	maxClaimName  = 100
	maxIssuer     = 500
	maxActorPart  = 200
	maxKeyTTL     = 100 * 365 * 24 * time.Hour
)

var (
	// namePattern matches the names of keys and bindings.
	namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	// tenantPattern matches tenants' names, as package claim accepts them.
	tenantPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+:-]{0,127}$`)
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

func checkName(name string) error {
	if !namePattern.MatchString(name) {
		return invalid("name %.70q: 1 to 64 letters, digits and . _ - are allowed, starting with a letter or digit", name)
	}
	return nil
}

// checkGrants returns an error that names what is wrong with the grants of a key.
func checkGrants(grants []auth.Grant) error {
	if len(grants) == 0 || len(grants) > maxGrants {
		return invalid("a key has 1 to %d grants", maxGrants)
	}
	for _, g := range grants {
		if err := g.Check(); err != nil {
			return invalid("%v", err)
		}
		if len(g.Claim) > maxActorPart {
			return invalid("claim %.70q is no claim's id", g.Claim)
		}
	}
	text, err := json.Marshal(grants)
	if err != nil {
		return invalid("%v", err)
	}
	if len(text) > maxGrantBytes {
		return invalid("the grants are larger than %d bytes", maxGrantBytes)
	}
	return nil
}

// check returns an error that names what is wrong with a binding.
func (b Binding) check() error {
	if err := checkName(b.Name); err != nil {
		return err
	}
	switch b.Kind {
	case auth.OIDCSubject:
		if !isPrintable(b.Issuer) || b.Issuer == "" || len(b.Issuer) > maxIssuer {
			return invalid("kind oidc: the issuer has 1 to %d characters", maxIssuer)
		}
	case auth.CertSubject, auth.UnixSubject:
		if b.Issuer != "" || len(b.Claims) > 0 || b.TenantClaim != "" {
			return invalid("kind %s: only tokens have an issuer and claims", b.Kind)
		}
	default:
		return invalid("kind %.40q: it is one of oidc, cert and unix", string(b.Kind))
	}
	if b.Role == auth.Operator && b.Subject == nil && len(b.Claims) == 0 {
		return invalid("role operator: name the subject or a claim; subject * is every holder of a token of the issuer, or of a certificate, and every user")
	}
	return b.checkGrant()
}

// checkGrant checks what a binding gives, and by which claims.
func (b Binding) checkGrant() error {
	if len(b.Claims) > maxClaims {
		return invalid("at most %d claims", maxClaims)
	}
	for name := range b.Claims {
		if name == "" || len(name) > maxClaimName || !isPrintable(name) {
			return invalid("claim %.40q: its name has 1 to %d characters", name, maxClaimName)
		}
	}
	g := b.grant()
	if b.TenantClaim != "" {
		switch {
		case b.Role != auth.Tenant:
			return invalid("role %.40s: tenant_claim is for role tenant", b.Role)
		case len(b.Tenants) > 0:
			return invalid("tenants and tenant_claim exclude each other")
		case len(b.TenantClaim) > maxClaimName || !isPrintable(b.TenantClaim):
			return invalid("tenant_claim %.40q: its name has 1 to %d characters", b.TenantClaim, maxClaimName)
		}
		g.Tenants = append(g.Tenants, anyTenant)
	}
	if err := checkGrants([]auth.Grant{g}); err != nil {
		return err
	}
	text, err := json.Marshal(b)
	if err != nil {
		return invalid("%v", err)
	}
	if len(text) > maxGrantBytes {
		return invalid("the binding is larger than %d bytes", maxGrantBytes)
	}
	return nil
}

// isPrintable reports whether a text is safe in a log: without control characters,
// and valid UTF-8.
func isPrintable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) })
}

// digestBytes are those of the digest in the part of an actor: none has another one
// of the same digest, also if its holder chooses the name.
const digestBytes = 16

// actorPart returns a subject's name as a part of an actor's. One that is too long, or
// has characters that do not belong into a log or look like others, gets a digest, so
// that no two names become one or seem to. So does one with the mark of a digest.
func actorPart(name string) string {
	clean := strings.Map(func(r rune) rune {
		if r == '#' || r == '~' || r == utf8.RuneError || !unicode.IsGraphic(r) {
			return '_'
		}
		return r
	}, name)
	isPlain := !strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) && strings.Join(strings.Fields(name), " ") == name
	if clean == name && isPlain && len(name) <= maxActorPart {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	clean = strings.Join(strings.Fields(clean), "_")
	for len(clean) > maxActorPart-1-2*digestBytes {
		_, size := utf8.DecodeLastRuneInString(clean)
		clean = clean[:len(clean)-size]
	}
	return fmt.Sprintf("%s~%x", clean, sum[:digestBytes])
}

func isRole(r auth.Role) bool { return slices.Contains(auth.Roles(), r) }
